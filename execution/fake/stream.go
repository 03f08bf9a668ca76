package fake

import (
	"bytes"
	"errors"
	"io"

	"github.com/pinfold-dev/pinfold/execution"
)

// A stream carries a job's output to its writer.
type stream struct {
	job     *job
	pipe    *pipe
	writer  io.Writer
	carried int64 // owned by copy, and final when that has returned
}

func newStream(j *job, w io.Writer) *stream {
	if w == nil {
		w = io.Discard
	}
	return &stream{job: j, pipe: &pipe{}, writer: w}
}

// copy carries the output until its end, or until the writer fails or the
// output limit is reached; then the job is ended and the rest vanishes.
func (s *stream) copy() {
	for {
		data, err := s.pipe.take()
		if err != nil {
			return
		}
		select {
		case s.job.moved <- struct{}{}:
		default:
		}
		data, over := s.job.carry(data)
		n, err := s.writer.Write(data)
		if n < len(data) && err == nil {
			err = io.ErrShortWrite
		}
		s.carried += int64(n)
		switch {
		case err != nil:
			s.job.terminate(execution.EndingCancelled, "its output could not be written", err)
		case over:
			s.job.terminate(execution.EndingOutputLimit, "", nil)
		default:
			continue
		}
		s.pipe.detach(true)
		return
	}
}

// carry cuts data at what the job may still write.
func (j *job) carry(data []byte) (_ []byte, over bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if limit := j.cmd.OutputLimit; limit > 0 && j.carried+int64(len(data)) > limit {
		data, over = data[:limit-j.carried], true
	}
	j.carried += int64(len(data))
	return data, over
}

// feed passes on stdin until its end or the end of the command. A Read that
// blocks for longer is left behind.
func (j *job) feed() {
	if j.cmd.Stdin == nil {
		return
	}
	go func() {
		defer j.stdin.close()
		buf := make([]byte, 32<<10)
		for {
			n, err := j.cmd.Stdin.Read(buf)
			if werr := j.passOn(buf[:n]); werr != nil {
				return
			}
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				j.inputFailed(err)
				return
			}
		}
	}()
}

// passOn gives input to the job. On a terminal the interrupt key sends SIGINT;
// there is no echo and no editing of lines.
func (j *job) passOn(input []byte) error {
	const interrupt = 0x03
	for j.cmd.TTY != nil {
		before, after, found := bytes.Cut(input, []byte{interrupt})
		if !found {
			break
		}
		if _, err := j.stdin.write(before, j.leader.ended); err != nil {
			return err
		}
		j.mu.Lock()
		for _, p := range j.procs {
			p.deliver(execution.SIGINT)
		}
		j.mu.Unlock()
		input = after
	}
	_, err := j.stdin.write(input, j.leader.ended)
	return err
}
