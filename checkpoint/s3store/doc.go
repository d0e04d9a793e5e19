// Package s3store keeps checkpoints in a bucket of an object store that speaks S3. It is a module of its own, so that nobody who
// does not use it depends on its client.
//
// Its one idea is that an object is there whole or not at all, so that the object with the metadata is the commit. The names
// below the prefix are those of checkpoint.DirStore:
//
//	_state             the coordinator's record
//	chk-ID/_metadata   the checkpoint exists since this does
//	chk-ID/MEMBER/NAME a part
//
// A bucket has no lock that a dead process gives back. Instead the record is only replaced by who has read the one that is there
// (If-Match). A coordinator that another one has overtaken cannot open an epoch any more, and its members are the other one's.
//
// Invariants: a part is not visible before Commit returns; metadata is deleted before the parts; SaveState replaces what this
// store loaded or saved last, or fails with checkpoint.ErrLocked.
//
// The bucket must be strongly consistent, as S3 has been since 2020. Unfinished uploads of killed processes are not visible, but are
// paid for: give the bucket a lifecycle rule that aborts incomplete multipart uploads.
package s3store
