package main

import (
	"encoding/binary"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// NATS, with the server in the receiver's process: three copies of each byte less than with one of its own. Core NATS drops what a
// subscriber does not take in time, so the receiver acknowledges messages, and the sender keeps a bounded number under way.

const (
	natsUnderWay = 512 // messages of 32 KiB
	natsAckEvery = 32
	natsSmall    = 64 // so many times as many messages of a record
	natsQueue    = 64 << 10
	natsStart    = 5 * time.Second
)

// natsServe starts the server and returns the receiver's connection to it. listening is said once f has subscribed.
func natsServe(r *role, subscribe func(*nats.Conn) error) (*nats.Conn, error) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	if err != nil {
		return nil, err
	}
	go s.Start()
	if !s.ReadyForConnections(natsStart) {
		return nil, errors.New("the NATS server does not start")
	}
	c, err := nats.Connect(s.ClientURL())
	if err == nil {
		err = subscribe(c)
	}
	if err == nil {
		err = c.Flush()
	}
	if err != nil {
		return nil, err
	}
	r.listening(s.ClientURL())
	return c, nil
}

func natsSubject(i int) string { return "peers." + strconv.Itoa(i) }

// natsReceive takes messages of n subjects and acknowledges every so many.
func natsReceive(r *role, n, every int, take func([]byte) error) error {
	messages := make(chan *nats.Msg, natsQueue)
	c, err := natsServe(r, func(c *nats.Conn) error {
		for i := range n {
			if _, err := c.ChanSubscribe(natsSubject(i), messages); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := 1; ; i++ {
		m := <-messages
		if err := take(m.Data); err != nil {
			return err
		}
		if i%every == 0 {
			if err := c.Publish("peers.ack", nil); err != nil {
				return err
			}
		}
	}
}

// natsSend publishes over n subjects in turn, with at most underWay messages not acknowledged.
func natsSend(r *role, n, underWay, every int, next func() []byte, bytes, items int64) error {
	c, err := nats.Connect(r.addr)
	if err != nil {
		return err
	}
	room := make(chan struct{}, underWay/every)
	for range cap(room) {
		room <- struct{}{}
	}
	if _, err := c.Subscribe("peers.ack", func(*nats.Msg) { room <- struct{}{} }); err != nil {
		return err
	}
	if err := c.Flush(); err != nil {
		return err
	}
	var subjects []string
	for i := range n {
		subjects = append(subjects, natsSubject(i))
	}
	for i := 0; ; i++ {
		if i%every == 0 {
			<-room
		}
		if err := c.Publish(subjects[i%n], next()); err != nil {
			return err
		}
		r.meter.Add(bytes, items)
	}
}

func natsBulk() (receive, send func(*role) error) {
	receive = func(r *role) error {
		c := r.consumer()
		return natsReceive(r, 1, natsAckEvery, func(b []byte) error { return c.frame(0, b) })
	}
	send = func(r *role) error {
		frames, i := newFrames(perCall, 0), 0
		return natsSend(r, 1, natsUnderWay, natsAckEvery, func() []byte {
			i++
			return frames[i%perCall][headerSize:]
		}, bufferSize, 1)
	}
	return receive, send
}

func natsRecords() (receive, send func(*role) error) {
	receive = func(r *role) error {
		return natsReceive(r, recordChannels, natsAckEvery*natsSmall, func(b []byte) error {
			return countRecords(r.meter, 1, binary.LittleEndian.Uint64(b))
		})
	}
	send = func(r *role) error {
		return natsSend(r, recordChannels, natsUnderWay*natsSmall, natsAckEvery*natsSmall, func() []byte { return body }, recordSize, 1)
	}
	return receive, send
}

func natsBatched() (receive, send func(*role) error) {
	receive = func(r *role) error {
		var d recordDecoder
		return natsReceive(r, recordChannels, natsAckEvery, func(b []byte) error {
			n, sum := d.decode(b)
			return countRecords(r.meter, n, sum)
		})
	}
	send = func(r *role) error {
		b := make([]byte, 0, bufferSize)
		return natsSend(r, recordChannels, natsUnderWay, natsAckEvery, func() []byte {
			return appendMessage(b[:0])
		}, perMessage*recordSize, perMessage)
	}
	return receive, send
}

func natsPing() (receive, send func(*role) error) {
	receive = func(r *role) error {
		failed := make(chan error, 1)
		_, err := natsServe(r, func(c *nats.Conn) error {
			_, err := c.Subscribe("peers.ping", func(m *nats.Msg) {
				if err := m.Respond(m.Data); err != nil {
					failed <- err
				}
				r.meter.Add(pingSize, 1)
			})
			return err
		})
		if err != nil {
			return err
		}
		return <-failed
	}
	send = func(r *role) error {
		c, err := nats.Connect(r.addr)
		if err != nil {
			return err
		}
		b := make([]byte, pingSize)
		return r.pingLoop(func() error {
			_, err := c.Request("peers.ping", b, natsStart)
			return err
		})
	}
	return receive, send
}
