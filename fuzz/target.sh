#!/usr/bin/env bash
# target.sh PACKAGE TARGET GO-TEST-FLAGS...: one fuzz target, in the module of the working directory.
#
# Go before 1.27 can end a target whose -fuzztime is over with "context deadline exceeded" (golang.org/issue/75804): its
# coordinator reads the deadline of a context a moment before the child's that it compares with. That end, and no other, is run
# again, three times at most. A finding says more than this one line, and is written to testdata.
set -euo pipefail
package=$1 target=$2
shift 2
out=$(mktemp)
trap 'rm -f "$out"' EXIT
for try in 1 2 3; do
	go test -run '^$' -fuzz "^$target\$" "$@" "$package" 2>&1 | tee "$out" && exit 0
	# What the target itself said: the lines behind its verdict, up to the verdict of the process.
	said=$(sed -n '/^--- FAIL: /,/^FAIL$/{/^--- FAIL: /d;/^FAIL$/d;p}' "$out")
	if [ "$(tr -d ' \n' <<<"$said")" != contextdeadlineexceeded ]; then break; fi
	echo "$target: the end of its time was taken for a failure (golang.org/issue/75804), run $try of 3"
done
exit 1
