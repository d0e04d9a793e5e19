package task_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/task"
)

// diary notes the mails that ran.
type diary struct{ names []string }

func (d *diary) mail(name string, also ...func()) task.Mail {
	return task.Mail{Name: name, Do: func() error {
		d.names = append(d.names, name)
		for _, f := range also {
			f()
		}
		return nil
	}}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestMailboxOrder checks that urgent mails go first, also those that come while others run, and that a batch ends.
func TestMailboxOrder(t *testing.T) {
	var d diary
	m := task.NewMailbox(8, nil)
	if m.HasMail() {
		t.Error("a new mailbox has mail")
	}
	must(t, m.Post(d.mail("a", func() {
		must(t, m.Post(d.mail("later")))
		must(t, m.PostUrgent(d.mail("u3")))
		must(t, m.PostUrgent(d.mail("u4")))
	})))
	must(t, m.Post(d.mail("b")))
	must(t, m.PostUrgent(d.mail("u1")))
	must(t, m.PostUrgent(d.mail("u2")))
	if !m.HasMail() {
		t.Error("no mail")
	}
	n, err := m.Process()
	if got := strings.Join(d.names, " "); got != "u1 u2 a u3 u4 b" || n != 6 || err != nil {
		t.Errorf("%d mails ran: %s, %v", n, got, err)
	}
	if !m.HasMail() {
		t.Error("the mail that came last is gone")
	}
	if n, err := m.Process(); n != 1 || err != nil || d.names[6] != "later" || m.HasMail() {
		t.Errorf("%d mails ran: %v, %v", n, d.names, err)
	}
	if n, err := m.Process(); n != 0 || err != nil {
		t.Errorf("an empty mailbox ran %d mails, %v", n, err)
	}
}

// TestMailboxError checks that an error names its mail, and that those behind it still wait.
func TestMailboxError(t *testing.T) {
	var d diary
	m := task.NewMailbox(8, nil)
	broken := errors.New("broken")
	must(t, m.Post(d.mail("a")))
	must(t, m.Post(task.Mail{Name: "bad", Do: func() error { return broken }}))
	must(t, m.Post(d.mail("b")))
	if n, err := m.Process(); n != 2 || !errors.Is(err, broken) || !strings.Contains(err.Error(), "bad") {
		t.Errorf("%d mails, %v", n, err)
	}
	if mail, ok := m.Take(); !ok || mail.Name != "b" || m.HasMail() {
		t.Errorf("%v, %t, %t", mail.Name, ok, m.HasMail())
	}
}

// TestMailboxStates checks a full, a quiesced and a closed mailbox.
func TestMailboxStates(t *testing.T) {
	var d diary
	m := task.NewMailbox(2, nil)
	must(t, m.Post(d.mail("a")))
	must(t, m.Post(d.mail("b")))
	if err := m.Post(d.mail("c")); !errors.Is(err, task.ErrMailboxFull) || !strings.Contains(err.Error(), "c") {
		t.Errorf("full: %v", err)
	}
	must(t, m.PostUrgent(d.mail("u")))
	m.Quiesce()
	if err := m.Post(d.mail("c")); !errors.Is(err, task.ErrMailboxClosed) {
		t.Errorf("quiesced: %v", err)
	}
	must(t, m.PostUrgent(d.mail("v")))
	if mail, ok := m.Take(); !ok || mail.Name != "u" {
		t.Errorf("took %q, %t", mail.Name, ok)
	}
	var undone []string
	m.Close(func(mail task.Mail) { undone = append(undone, mail.Name) })
	if !slices.Equal(undone, []string{"v", "a", "b"}) || len(d.names) != 0 || m.HasMail() {
		t.Errorf("handed back: %v, ran: %v", undone, d.names)
	}
	for _, post := range []func(task.Mail) error{m.Post, m.PostUrgent} {
		if err := post(d.mail("c")); !errors.Is(err, task.ErrMailboxClosed) {
			t.Errorf("closed: %v", err)
		}
	}
	if m.HasMail() {
		t.Error("a refused mail is counted")
	}
	m.Close(nil) // again
}

// TestMailboxWait checks that a sleeping task is woken by a mail, and by the end of its context.
func TestMailboxWait(t *testing.T) {
	var d diary
	n := ringbuf.NewNotifier()
	m := task.NewMailbox(2, n)
	ctx, cancel := context.WithCancel(context.Background())
	for i, post := range []func(task.Mail) error{m.Post, m.PostUrgent} {
		done := make(chan error)
		go func() { done <- m.Wait(ctx) }()
		for !n.Sleeping() {
			runtime.Gosched()
		}
		must(t, post(d.mail(fmt.Sprint(i))))
		must(t, <-done)
		if k, err := m.Process(); k != 1 || err != nil {
			t.Fatalf("%d mails after waking, %v", k, err)
		}
	}
	done := make(chan error)
	go func() { done <- m.Wait(ctx) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Wait returned %v", err)
	}
}

// TestMailboxConcurrent checks that every mail that was accepted from many goroutines is run or handed back once, in the
// order of its poster, while the mailbox is quiesced and closed in between.
func TestMailboxConcurrent(t *testing.T) {
	const posters, each = 4, 500
	m := task.NewMailbox(16, nil)
	accepted, seen := make([]int, 2*posters), make([]int, 2*posters)
	note := func(p, i int) {
		if seen[p] != i {
			t.Errorf("poster %d: mail %d after %d", p, i, seen[p]-1)
		}
		seen[p] = i + 1
	}
	var posting sync.WaitGroup
	for p := range 2 * posters {
		posting.Add(1)
		go func() {
			defer posting.Done()
			post := m.Post
			if p%2 == 1 {
				post = m.PostUrgent
			}
			for accepted[p] < each {
				i := accepted[p]
				err := post(task.Mail{Do: func() error { note(p, i); return nil }})
				switch {
				case err == nil:
					accepted[p]++
				case errors.Is(err, task.ErrMailboxClosed):
					return
				default:
					runtime.Gosched() // full
				}
			}
		}()
	}
	ran := 0
	for ran < posters*each {
		must(t, m.Wait(context.Background()))
		n, err := m.Process()
		must(t, err)
		ran += n
	}
	m.Quiesce()
	undone := 0
	m.Close(func(mail task.Mail) {
		must(t, mail.Do())
		undone++
	})
	posting.Wait()
	if m.HasMail() {
		t.Error("mail is left")
	}
	for p := range accepted {
		if accepted[p] != seen[p] {
			t.Errorf("poster %d: %d accepted, %d ran or came back", p, accepted[p], seen[p])
		}
	}
	t.Logf("%d ran, %d came back", ran, undone)
}
