// Package docs runs the documentation: its tests type every console block of README.md and
// docs/*.md into a shell, page by page, with the real binary, and compare the output.
//
// # A page is a session
//
// It begins in an empty folder. In a ```console block a line that begins with "$ " is a
// command. It continues over the next lines while a quote is open or a line ends in a
// backslash. The lines up to the next command are its output. A command must succeed, unless
// the shown output begins with "tidemill: " (an error). Without shown output, nothing is
// compared.
//
//   - `tidemill run`, `tidemill bridge listen` and `tidemill partner listen` go on in terminals
//     of their own: what they print at first is compared, but for log records. At the end of
//     the session each is ended with Ctrl-C, and must end well. A line "^C" ends it earlier.
//   - `cat FILE` of a file that is not there writes it: the page shows what to put into it.
//   - A command that only looks (tidemill events, status, dead list…) is repeated for a
//     minute until it prints what the page says: the reader is not that fast.
//   - $KEY is the ingest key that `tidemill run` printed last.
//   - Ports are free ones: 8484, 1883 and the rest are replaced on the way in and out.
//
// # Patterns
//
// Times, durations, ids, ports, keys and versions may be any. Ids that are equal in the page
// are equal in the output. Runs of blanks are one blank. "…" stands for any text in a line,
// and alone on a line for any lines.
//
// After a change to what the product prints,
//
//	TIDEMILL_TEST_SERVERS=1 go test ./test/docs -run Happens/README -update
//
// writes the new output into the page. Read the change before you commit it: readers will see
// it.
//
// # Comments that the runner reads
//
// Before a block, each in a comment of its own:
//
//	<!-- docs: skip REASON -->           the block is not run, because…
//	<!-- docs: file NAME -->             the block is the content of a file (yaml, json, …)
//	<!-- docs: node -->                  the block is a JavaScript program: Node.js runs it
//	<!-- docs: go FILE -->               the block is Go code: it compiles in testdata/FILE, in the place of its line // BLOCK
//	<!-- docs: prints COMMAND -->        the block is what the command in its own terminal prints next
//	<!-- docs: any order -->             the lines of outputs come in any order
//	<!-- docs: numbers vary -->          every number may be another
//	<!-- docs: kill COMMAND after 1s --> kill -9 of a command in its own terminal, after the block's first command began
//
// Anywhere:
//
//	<!-- docs: session -->               everything is ended; what follows begins in an empty folder
//	<!-- docs: session redis postgres --> the same, with servers of its own on their usual ports
//	<!-- docs: setup COMMAND -->         a command that the reader need not see; $CHECKOUT is the repository
//	<!-- docs: gdelt BATCH -->           the files of a batch, of 1,000 events and 3,000 mentions, in the working folder
//	<!-- docs: stop COMMAND -->          Ctrl-C in that command's terminal
package docs
