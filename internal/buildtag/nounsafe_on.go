//go:build nounsafe

package buildtag

// NoUnsafe tells whether this build avoids package unsafe (-tags nounsafe).
const NoUnsafe = true
