package record_test

import (
	"fmt"

	"github.com/tidemill/tidemill/systems/windows/record"
)

func Example() {
	var r record.Record
	raw := []byte(`{"globalEventId":7,"mentionIdentifier":"https://example.com/a","sentenceId":3,"mentionTimeDate":20250323151500,"mentionDocTone":-2.50}`)
	if err := record.Decode(record.Mention, raw, &r); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s, sentence %s\n", r.AppendKey(nil), r.AppendQualifier(nil))
	fmt.Printf("%s\n", r.AppendOut(nil))
	// Output:
	// 7_https://example.com/a, sentence 3
	// {"globalEventId":7,"eventTimeDate":null,"elasticIndexDate":"2025-03-23","mentionTimeDate":"2025-03-23T15:15:00Z","mentionType":null,"mentionSourceName":null,"mentionIdentifier":"https://example.com/a","sentenceId":3,"actor1CharOffset":null,"actor2CharOffset":null,"actionCharOffset":null,"inRawText":null,"confidence":null,"mentionDocLen":null,"mentionDocTone":-2.50,"mentionDocTranslationInfo":null}
}
