-- look shows one window. ARGV 2 number, 3 batch id: others of the number are not shown
local w = shown(ARGV[2])
if w[2] ~= ARGV[3] then return {} end
return w
