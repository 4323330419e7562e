"""The scheduler: a pure state machine. Events and messages in, commands out, time as an argument.

Nothing in here reads a clock, draws a random number, opens a socket or starts a thread; a test feeds events and
compares commands. Where choices are equal the lower id wins, so a run is repeated exactly by feeding the same events at
the same times.

How the modules stand, each importing only from those above it:

- `messages`, `events`, `commands`: the contract with drivers and wire.
- `settings`, `states`: what can be set; the transition tables of tasks, seats and clients.
- `timers`, `nodes`, `functions`, `receipts`, `clients`, `tasks`, `objects`, `queueing`, `seats`, `replay`: the records,
  each with the rules that need nothing but itself.
- `errorvalues`: the bytes of the errors that the scheduler itself answers with.
- `board`: all records of one cluster in one place.
- `endings`, `submitting`, `sending`, `taking`, `cancelling`, `losing`, `reporting`, `attending`, `recovering`,
  `seating`, `scaling`: what happens to the records, a chapter each.
- `scheduler`: the door.
"""
