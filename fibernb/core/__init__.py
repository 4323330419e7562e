"""The scheduler: a pure state machine. Events and messages in, commands out, time as an argument.

Nothing in here reads a clock, draws a random number, opens a socket or starts a thread; a test feeds events and
compares commands. Where choices are equal the lower id wins, so a run is repeated exactly by feeding the same events at
the same times.

How the modules stand, each importing only from those above it:

- `messages`, `events`, `commands`: the contract with drivers and wire.
- `settings`, `states`: what can be set; the transition tables of tasks, seats, actors and clients.
- `timers`, `devices`, `nodes`, `leases`, `functions`, `receipts`, `clients`, `tasks`, `objects`, `queueing`, `actors`,
  `placements`, `seats`, `replay`, `history`: the records, each with the rules that need nothing but itself.
- `errorvalues`: the bytes of the errors that the scheduler itself answers with.
- `board`: all records of one cluster in one place.
- what happens to the records, a chapter each:
  of values `holding`, `lineage`, `endings`, `streams`, `remaking`;
  of calls `submitting`, `feasible`, `sending`, `taking`, `cancelling`, `losing`;
  of what runs beside the seats `auxiliary`, `leasing`, `lending`, `special`, `acting`, `reviving`, `grouping`;
  of seats and nodes `seating`, `scaling`, `memory`; of clients and the hub `attending`, `recovering`;
  for those who look `reporting`, `explaining`, `rows`.
- `dispatching`, `scheduler`: the order of what is decided, and the door.
"""
