package process

// Answered applies an answer, for the fuzzer.
func Answered(whole []byte, items []*Item) error {
	answers, err := parse(whole, len(items))
	if err != nil {
		return err
	}
	return apply(items, answers)
}
