-- wake gives a wake-up back that was taken and not used.
local q = open(base)
q.wakes = call('LLEN', base .. 'wait') + call('ZCARD', base .. 'prioritized') > 0
q.later = true
done()
return 1
