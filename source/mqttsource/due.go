package mqttsource

// dues is the delayed messages, the earliest first.
type dues []*entry

func (d dues) Len() int { return len(d) }
func (d dues) Less(i, j int) bool {
	if !d[i].when.Equal(d[j].when) {
		return d[i].when.Before(d[j].when)
	}
	return d[i].number < d[j].number
}
func (d dues) Swap(i, j int) { d[i], d[j] = d[j], d[i]; d[i].place, d[j].place = i, j }
func (d *dues) Push(x any)   { e := x.(*entry); e.place = len(*d); *d = append(*d, e) }
func (d *dues) Pop() any {
	e := (*d)[len(*d)-1]
	(*d)[len(*d)-1] = nil
	*d = (*d)[:len(*d)-1]
	return e
}
