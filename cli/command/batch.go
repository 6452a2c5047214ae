package command

import "bytes"

// Batch collects JSON values into the array that one request has.
type Batch struct {
	Places []string // where each was read

	body bytes.Buffer
}

// Full says whether one more value is too much for a request of so many values and bytes.
func (b *Batch) Full(raw []byte, values, size int) bool {
	return len(b.Places) == values || b.body.Len()+len(raw) > size
}

// Add adds a value.
func (b *Batch) Add(raw []byte, place string) {
	b.body.WriteByte(map[bool]byte{true: '[', false: ','}[len(b.Places) == 0])
	b.body.Write(raw)
	b.Places = append(b.Places, place)
}

// Array ends the array, which nothing can be added to before Reset.
func (b *Batch) Array() []byte {
	b.body.WriteByte(']')
	return b.body.Bytes()
}

// Reset makes it empty.
func (b *Batch) Reset() {
	b.body.Reset()
	b.Places = b.Places[:0]
}
