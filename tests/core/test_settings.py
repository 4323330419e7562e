from fibernb.core.settings import CoreSettings


def test_defaults_fit_together() -> None:
    settings = CoreSettings()
    assert settings.batch_s < settings.no_prefetch_s < settings.interrupt_grace_s
    assert settings.restart_delay_s < settings.max_restart_delay_s
    assert settings.max_backlog_bytes < settings.max_deliver_bytes < 2**30
    assert settings.max_batch_bytes < 2**30
    assert settings.report_s >= 0.05
    assert settings.max_seats is None
