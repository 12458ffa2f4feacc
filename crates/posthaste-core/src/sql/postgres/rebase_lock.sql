-- Nobody publishes, drives or rebases until this is done: new events would get ids that the old ticks seem to see.
LOCK TABLE {prefix}events, {prefix}lanes, {prefix}ticks IN SHARE ROW EXCLUSIVE MODE
