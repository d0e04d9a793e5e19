package credit

// Encoders append one whole frame to dst and return the extended slice; they allocate only if dst is too short.
// They write what they are given: keeping values legal (credit > 0, S >= 1 for events) is up to the state machines.

// AppendBufferHeader appends the header of a BufferResponse: frame header, message header and partial sizes. The
// h.Size payload bytes must follow on the wire. len(h.PartialSizes) must be h.Partial; with Flink120 both are left out.
func AppendBufferHeader(dst []byte, p Profile, h *BufferHeader) []byte {
	partials := h.PartialSizes
	if p == Flink120 {
		partials = nil
	}
	dst = appendFrame(dst, MsgBufferResponse, p.headerLen()+4*len(partials)+int(h.Size))
	dst = append(dst, h.Receiver[:]...)
	dst = appendI32(dst, h.Subpartition)
	if p != Flink120 {
		dst = appendI32(dst, int32(len(partials)))
	}
	dst = appendI32(dst, h.Seq)
	dst = appendI32(dst, h.Backlog)
	dst = append(dst, byte(h.Type), boolByte(h.Compressed))
	dst = appendI32(dst, h.Size)
	for _, n := range partials {
		dst = appendI32(dst, n)
	}
	return dst
}

// AppendBufferResponse appends a whole BufferResponse; len(payload) must be h.Size.
func AppendBufferResponse(dst []byte, p Profile, h *BufferHeader, payload []byte) []byte {
	return append(AppendBufferHeader(dst, p, h), payload...)
}

// AppendErrorResponse appends an ErrorResponse around a Java object stream (see AppendThrowable). fatal: it concerns
// the connection and carries no receiver.
func AppendErrorResponse(dst []byte, stream []byte, receiver ChannelID, fatal bool) []byte {
	n := len(stream) + 1
	if !fatal {
		n += len(receiver)
	}
	dst = appendFrame(dst, MsgErrorResponse, n)
	dst = append(dst, stream...)
	if fatal {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	return append(dst, receiver[:]...)
}

// AppendBacklogAnnouncement appends a BacklogAnnouncement; backlog must be > 0.
func AppendBacklogAnnouncement(dst []byte, receiver ChannelID, backlog int32) []byte {
	return appendNumber(dst, MsgBacklogAnnouncement, receiver, backlog)
}

// AppendPartitionRequest appends a PartitionRequest.
func AppendPartitionRequest(dst []byte, r *PartitionRequest) []byte {
	dst = appendFrame(dst, MsgPartitionRequest, 88)
	dst = append(dst, r.Partition[:]...)
	dst = appendI32(dst, r.Range.First)
	dst = appendI32(dst, r.Range.Last)
	dst = append(dst, r.Receiver[:]...)
	return appendI32(dst, r.Credit)
}

// AppendTaskEventRequest appends a TaskEventRequest; event is a serialized TaskEvent without padding.
func AppendTaskEventRequest(dst []byte, event []byte, partition *PartitionID, receiver ChannelID) []byte {
	dst = appendFrame(dst, MsgTaskEventRequest, 4+len(event)+len(partition)+len(receiver))
	dst = appendI32(dst, int32(len(event)))
	dst = append(dst, event...)
	dst = append(dst, partition[:]...)
	return append(dst, receiver[:]...)
}

// AppendCancelPartitionRequest appends a CancelPartitionRequest.
func AppendCancelPartitionRequest(dst []byte, receiver ChannelID) []byte {
	return appendID(dst, MsgCancelPartitionRequest, receiver)
}

// AppendCloseRequest appends a CloseRequest.
func AppendCloseRequest(dst []byte) []byte { return appendFrame(dst, MsgCloseRequest, 0) }

// AppendAddCredit appends an AddCredit; credit is the increment and must be > 0.
func AppendAddCredit(dst []byte, receiver ChannelID, credit int32) []byte {
	return appendNumber(dst, MsgAddCredit, receiver, credit)
}

// AppendResumeConsumption appends a ResumeConsumption.
func AppendResumeConsumption(dst []byte, receiver ChannelID) []byte {
	return appendID(dst, MsgResumeConsumption, receiver)
}

// AppendAckAllUserRecordsProcessed appends an AckAllUserRecordsProcessed.
func AppendAckAllUserRecordsProcessed(dst []byte, receiver ChannelID) []byte {
	return appendID(dst, MsgAckAllUserRecordsProcessed, receiver)
}

// AppendNewBufferSize appends a NewBufferSize; size must be > 0.
func AppendNewBufferSize(dst []byte, receiver ChannelID, size int32) []byte {
	return appendNumber(dst, MsgNewBufferSize, receiver, size)
}

// AppendSegmentID appends a SegmentId; segmentID must be > 0.
func AppendSegmentID(dst []byte, receiver ChannelID, subpartition, segmentID int32) []byte {
	dst = appendFrame(dst, MsgSegmentID, 24)
	dst = appendI32(dst, subpartition)
	dst = appendI32(dst, segmentID)
	return append(dst, receiver[:]...)
}

// appendID appends a message whose body is a receiver id.
func appendID(dst []byte, id MessageID, receiver ChannelID) []byte {
	return append(appendFrame(dst, id, 16), receiver[:]...)
}

// appendNumber appends a message whose body is a number and then a receiver id (in this order).
func appendNumber(dst []byte, id MessageID, receiver ChannelID, n int32) []byte {
	return append(appendI32(appendFrame(dst, id, 20), n), receiver[:]...)
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}
