package mqttconn

// inbox is the messages that came in and were not given to Receive, in their order: a ring that
// grows and shrinks. Its slots keep their memory. The client's mu guards it.
type inbox struct {
	size        int // slots, unless it had to grow
	ring        []Delivery
	head, count int
	came        bool            // something came that Receive was not told of
	releasing   map[uint16]bool // ids at QoS 2 that we accepted, until the broker releases them
}

func newInbox(size int) inbox {
	return inbox{size: size, ring: make([]Delivery, size), releasing: map[uint16]bool{}}
}

// take moves deliveries to into, and says whether the inbox was full before.
func (b *inbox) take(into []Delivery) (n int, full bool) {
	full = b.count == len(b.ring)
	for ; n < len(into) && b.count > 0; n++ {
		into[n], b.ring[b.head] = b.ring[b.head], into[n]
		b.head = (b.head + 1) % len(b.ring)
		b.count--
	}
	if b.count == 0 && len(b.ring) > b.size {
		b.ring, b.head = make([]Delivery, b.size), 0
	}
	return n, full
}

// full says that there is no slot for another message.
func (b *inbox) full() bool { return b.count == len(b.ring) }

// next is the slot of the next message. The inbox is not full.
func (b *inbox) next() *Delivery {
	d := &b.ring[(b.head+b.count)%len(b.ring)]
	b.count++
	b.came = true
	return d
}

// mostInbox is how many messages can be sent to us, at QoS 1 and 2: packet ids have two bytes.
const mostInbox = 65_535

// grow makes room for more; false: it has as many slots as there can be messages.
func (b *inbox) grow() bool {
	if len(b.ring) >= mostInbox {
		return false
	}
	larger := make([]Delivery, min(2*len(b.ring), mostInbox))
	n := copy(larger, b.ring[b.head:])
	copy(larger[n:], b.ring[:b.head])
	b.ring, b.head = larger, 0
	return true
}

// dropRepeated forgets what the broker sends again on a new connection of the same session.
func (b *inbox) dropRepeated() {
	kept := 0
	for i := range b.count {
		from, to := (b.head+i)%len(b.ring), (b.head+kept)%len(b.ring)
		if b.ring[from].QoS == 0 {
			b.ring[from], b.ring[to] = b.ring[to], b.ring[from]
			kept++
		}
	}
	b.count = kept
}
