package conform

// A vectorFamily checks lines of vector files. The first family that matches a line checks it.
type vectorFamily struct {
	name  string
	match func(v *Vector) bool
	check func(v *Vector) error // nil: not built, each line fails
}

// A traceFamily runs scenarios of trace files. The first family that matches a scenario runs it.
//
// run does the steps of s on the library and takes down in out what is seen; it must not look at the wanted lines. An
// error means that the scenario could not be run at all (an unknown step, say); an error that a step of the library
// returns is out.Error.
//
// due, if not nil, is the scenario without what the format leaves open, which run does not print either.
type traceFamily struct {
	name  string
	match func(s *Scenario) bool
	run   func(s *Scenario, out *Out) error
	due   func(s *Scenario) *Scenario
}

// vectorFamilies lists all families of vectors. A family with a narrower match stands above a wider one.
var vectorFamilies = []vectorFamily{
	{"wire", kinds("BufferResponse", "ErrorResponse", "PartitionRequest", "TaskEventRequest", "CancelPartitionRequest", "CloseRequest",
		"AddCredit", "ResumeConsumption", "AckAllUserRecordsProcessed", "BacklogAnnouncement", "NewBufferSize", "SegmentId"), checkWire},
	{"events", hasField("eventClass"), checkEvent},
	{"elements", kinds("StreamRecord", "Watermark", "InternalWatermark", "LatencyMarker", "WatermarkStatus", "RecordAttributes"), checkElement},
	{"types", kinds("Value"), checkType},
	{"keygroups", kinds("Key", "Ranges", "DefaultMaxParallelism"), checkKeyGroup},
	{"spanning", kinds("Spanning"), checkSpanningVector},
	{"compress", hasField("original"), checkCompress},
}

// traceFamilies lists all families of traces, told apart by the keys of their configurations.
var traceFamilies = []traceFamily{
	{"align", config("mode", "channels", "finished"), runAlign, nil},
	{"credit-receiver", config("channels", "exclusive", "floating", "segment"), runCreditReceiver, withoutFailed},
	{"credit-sender", config("subpartitions", "exclusive", "segment"), runCreditSender, nil},
	{"deserialize-spanning", config("spill"), runSpanning, nil},
	{"watermark-valve", config("channels"), runValve, nil},
}

// sessionChecker checks a captured session; path is that of its .json file.
var sessionChecker func(path string) error = checkCapture

func kinds(names ...string) func(*Vector) bool {
	set := map[string]bool{}
	for _, n := range names {
		set[n] = true
	}
	return func(v *Vector) bool { return set[v.Kind] }
}

func hasField(name string) func(*Vector) bool {
	return func(v *Vector) bool { return v.Fields.Has(name) }
}

// config matches scenarios whose configuration has these keys and no other, which nobody would look at.
func config(keys ...string) func(*Scenario) bool {
	return func(s *Scenario) bool { return len(s.Config) == len(keys) && s.Has(keys...) }
}
