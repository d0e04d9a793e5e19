// Package inspect reads what went over connections of the data plane and tells what each frame was.
//
// The one idea: a [Session] is a third party at a connection. It decodes both directions with the library's own decoders and
// keeps, from what it sees alone, what each channel's two ends know: credit, backlog, what blocks. Bytes come from captured
// files ([ReadFiles]), from packets ([ReadCapture]) or from a proxy ([Proxy]); what is seen goes to a [Sink].
//
// The invariant: every byte that a source brings belongs to a frame that the sink was shown, or to an error or a note that
// says where it lies. No input makes it panic, and memory is bounded whatever arrives.
package inspect
