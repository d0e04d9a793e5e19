package task_test

import (
	"fmt"

	"github.com/weirflow/weir/task"
)

// Two channels: the watermark that goes out is the lesser one, until one of them is idle.
func ExampleValve() {
	v := task.NewValve(2)
	print := func(o task.ValveOutput, err error) {
		switch {
		case err != nil:
			fmt.Println(err)
		case o.HasWatermark:
			fmt.Println("watermark", o.Watermark)
		default:
			fmt.Println("nothing")
		}
	}
	print(v.InputWatermark(0, 10))
	print(v.InputWatermark(1, 4))
	print(v.InputStatus(1, true))
	// Output:
	// nothing
	// watermark 4
	// watermark 10
}

// A mail that another goroutine posts is done by the task, when it asks for mail between two records.
func ExampleMailbox() {
	m := task.NewMailbox(16, nil)
	done := make(chan error)
	go func() {
		done <- m.Post(task.Mail{Name: "timer", Do: func() error { fmt.Println("the timer fired"); return nil }})
	}()
	fmt.Println("posted:", <-done)

	for record := range 3 {
		if m.HasMail() {
			if _, err := m.Process(); err != nil {
				fmt.Println(err)
			}
		}
		fmt.Println("record", record)
	}
	// Output:
	// posted: <nil>
	// the timer fired
	// record 0
	// record 1
	// record 2
}
