// Package spool is the file of a blocking partition: written once, front to back, by one writer; read many times, by
// subpartition, from anywhere in it.
//
// # One idea
//
// Buffers are appended as they come, so that writing is sequential whatever the number of subpartitions. Each region of
// the file ends with a directory that lists its buffers by subpartition, and the file ends with an index of its regions.
// A reader of a subpartition, or of a range of them, goes from region to region and reads what the directories say.
//
//	header      magic, partition, subpartitions, size of a network buffer, codec                       84 bytes
//	region 0    payloads, one after the other, as they are sent: compressed or not
//	            directory: the entries of subpartition 0, those of subpartition 1, ...                 24 bytes each
//	            runs: for each subpartition where its entries begin, and how many there are            16 bytes each
//	region 1    ...
//	index       for each region where its runs begin                                                   16 bytes each
//	footer      magic, number of regions and subpartitions, where the index begins                     40 bytes
//
// Numbers are big-endian. Every byte is under a CRC-32C: header, footer, and each run, entry, index record and payload have
// one of their own, which covers what it is, too (an entry's its region, subpartition and place), so that a block that the
// disk put in the wrong place is found like one that it changed.
//
// A payload may be in the directories of several subpartitions: a broadcast is stored once.
//
// # Invariants
//
// A region ends only where no record goes on in the next buffer of any subpartition. So whoever reads a range of
// subpartitions, region by region and in each region subpartition by subpartition, never leaves one in the middle of a record.
//
// Reading trusts nothing: sizes are checked before memory is taken or a byte is read, and whatever is wrong is an error that wraps
// [ErrCorrupt] and says where in the file. What is not there is never invented.
//
// # Who owns what
//
// [Writer] is a state machine that writes to an io.Writer; [Cursor] is one without any I/O: it says which bytes it needs, and
// is given them. Each belongs to one goroutine. The file is private to a process and a release: it is removed with its
// partition, and no other version reads it.
package spool
