// Checks a recorded history of queues with Porcupine: is there one order of all operations, each within its
// time, in which the queues were logs that only grow?
//
//	history FILE [PAGE]
//
// FILE has one operation a line, as JSON. PAGE is an HTML page that shows a history without such an order.
// Exit codes: 0 there is such an order, 1 there is none, 2 nobody knows.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const limit = 2 * time.Minute

type operation struct {
	Client int
	// "append" or "read".
	Kind  string
	Queue int
	// Of an append -1: nobody told where it went, or whether it was stored at all.
	Offset int
	Values []uint32
	// Nanoseconds. Without a return the operation may have happened at any time since, or never.
	Call   int64
	Return int64
}

// The state of a queue is the text of its values, so that states compare as what they hold.
func text(values []uint32) string {
	bytes := make([]byte, 0, 4*len(values))
	for _, value := range values {
		bytes = binary.BigEndian.AppendUint32(bytes, value)
	}
	return string(bytes)
}

func step(state, input, _ any) (bool, any) {
	log, op := state.(string), input.(operation)
	if op.Kind == "append" {
		return op.Offset < 0 || 4*op.Offset == len(log), log + text(op.Values)
	}
	wanted := text(op.Values)
	from, to := 4*op.Offset, 4*op.Offset+len(wanted)
	return to <= len(log) && log[from:to] == wanted, state
}

// An append without an answer whose value was read is where it was read; whether it may be there is the
// checker's to say. One whose value nobody read is left out: it happened after all reads, or never, since the
// queues are read from end to end at last. Both spare a search that takes time beyond all bounds.
func locate(history []operation) []operation {
	type value struct {
		queue int
		value uint32
	}
	found := map[value]int{}
	for _, op := range history {
		if op.Kind == "read" {
			for at, one := range op.Values {
				found[value{op.Queue, one}] = op.Offset + at
			}
		}
	}
	var kept []operation
	for _, op := range history {
		if op.Kind == "append" && op.Offset < 0 {
			offset, ok := found[value{op.Queue, op.Values[0]}]
			if !ok {
				continue
			}
			op.Offset = offset
		}
		kept = append(kept, op)
	}
	return kept
}

func byQueue(history []porcupine.Operation) [][]porcupine.Operation {
	queues := map[int][]porcupine.Operation{}
	for _, one := range history {
		queue := one.Input.(operation).Queue
		queues[queue] = append(queues[queue], one)
	}
	parts := make([][]porcupine.Operation, 0, len(queues))
	for _, part := range queues {
		parts = append(parts, part)
	}
	return parts
}

func load(path string) ([]porcupine.Operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var read []operation
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var op operation
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			return nil, err
		}
		read = append(read, op)
	}
	read = locate(read)
	history := make([]porcupine.Operation, 0, len(read))
	for _, op := range read {
		end := op.Return
		if end == 0 {
			end = math.MaxInt64
		}
		history = append(history, porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Return: end})
	}
	return history, lines.Err()
}

func main() {
	history, err := load(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	model := porcupine.Model{
		Partition: byQueue,
		Init:      func() any { return "" },
		Step:      step,
		DescribeOperation: func(input, _ any) string {
			op := input.(operation)
			return fmt.Sprintf("%s %v at %d of queue %d", op.Kind, op.Values, op.Offset, op.Queue)
		},
		DescribeState: func(state any) string { return fmt.Sprintf("%d values", len(state.(string))/4) },
	}
	result, info := porcupine.CheckOperationsVerbose(model, history, limit)
	fmt.Printf("%s: %d operations\n", result, len(history))
	switch result {
	case porcupine.Ok:
		return
	case porcupine.Unknown:
		os.Exit(2)
	}
	if len(os.Args) > 2 {
		if err := porcupine.VisualizePath(model, info, os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(1)
}
