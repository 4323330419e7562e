"""What can be set about a scheduler. The driver fills this in from its configuration."""

from __future__ import annotations

from fibernb.model import Struct


class CoreSettings(Struct, frozen=True, kw_only=True):
    """Times are in seconds, sizes in bytes."""

    node: str = "local"  # name of the hub's own node
    pid: int = 0  # of the hub, for `Status`
    lease_s: float = 60.0  # how long a cluster waits for its first client, and a restarted hub for those it had
    max_seats: int | None = None  # more cannot be declared
    limit: str = ""  # why there is such a limit

    doubt_s: float = 10.0  # a client that came back has this long to tell again what it holds
    max_lineage_bytes: int = 256_000_000  # of calls kept to make lost values again; the oldest go first
    max_spans: int = 20_000  # of what ran when, for those who look, and tasks that failed
    max_past_actors: int = 1_000  # that are remembered, for the same

    interrupt_grace_s: float = 3.0  # from interrupt to kill
    exit_grace_s: float = 3.0  # from Exit to kill
    orphan_grace_s: float = 1.0  # from the end of who holds a process to kill: it may notice, and end by itself
    start_timeout_s: float = 60.0  # from StartEngine to kill

    restart_delay_s: float = 0.1  # after the first failure of a seat; doubles with each further one
    max_restart_delay_s: float = 30.0
    settle_s: float = 5.0  # an engine that ends sooner without having finished anything counts as a failed start

    batch_s: float = 0.005  # how much work one message should hold
    max_batch_calls: int = 512
    max_batch_bytes: int = 16_000_000
    max_call_bytes: int = 2**30 - 2**16  # arguments and inputs of a call; no message holds much more
    no_prefetch_s: float = 0.1  # calls that take this long are not queued behind others
    take_back_s: float = 0.005  # unstarted calls this long behind a running one are given to an idle engine
    max_deliver_bytes: int = 64_000_000  # results beyond this go into a further message
    starve_s: float = 1.0  # a task that needs more than one seat gets the seats that fall idle after waiting this long

    cycles_s: float = 10.0  # from the release of something to the look for actors that only hold each other
    extra_idle_s: float = 5.0  # engines beside the seats that have had nothing to do for this long are let go
    max_starting: int = 16  # engines of one kind beside the seats that are started at a time
    max_line_calls: int = 512  # calls that an actor's engine is sent ahead
    line_s: float = 0.05  # or as much work as this, where that is less

    report_s: float = 0.05  # least time between two `SeatsChanged`
    forget_s: float = 0.5  # longest time until an engine hears that its results have arrived
    autoscale_s: float = 0.1  # least time between two looks at the queue
    autoscale_horizon_s: float = 1.0  # queued work beyond this many seconds a seat asks for more seats

    max_backlog: int = 10_000  # messages kept for a client that is away
    max_backlog_bytes: int = 1_000_000
