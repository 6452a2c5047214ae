-- close closes the active window of a batch id. ARGV 2 batch; returns 1 if there was one
local no = call('HGET', base .. 'open', ARGV[2])
if not no then return 0 end
return freeze(no, 'hand') and 1 or 0
