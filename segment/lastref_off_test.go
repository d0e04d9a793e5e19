//go:build !weirdebug

package segment

// lastRef is an identity that may be released though it was never handed out.
func lastRef(*header) refID { return anonymous }
