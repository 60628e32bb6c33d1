// Package runner runs named cases and prints PASS, FAIL and SKIP lines.
package runner

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Case is one named case. Topics are "key:queues:type", groups "key[:orderly][:max=N]".
type Case struct {
	Name   string
	Topics []string
	Groups []string
	Secs   int
	Slow   bool
	Fn     func(c *Ctx)
}

var cases []*Case

// Add registers a case.
func Add(c Case) {
	if c.Secs == 0 {
		c.Secs = 75
	}
	if c.Groups == nil {
		c.Groups = []string{"g"}
	}
	cases = append(cases, &c)
}

type wrong struct{ why string }
type skip struct{ why string }

// Ctx is what one case has at hand.
type Ctx struct {
	Name, NS, Run string
	mu            sync.Mutex
	closers       []func()
}

func (c *Ctx) Topic(k string) string { return "G" + c.Run + "_" + c.Name + "_" + k }
func (c *Ctx) Group(k string) string { return "G" + c.Run + "_" + c.Name + "_" + k }
func (c *Ctx) Fresh(k string) string {
	return c.Topic(k + strconv.FormatInt(time.Now().UnixNano()%1e6, 36))
}
func (c *Ctx) OnClose(f func()) {
	c.mu.Lock()
	c.closers = append(c.closers, f)
	c.mu.Unlock()
}

func Ok(b bool, f string, a ...interface{}) {
	if !b {
		panic(wrong{fmt.Sprintf(f, a...)})
	}
}
func Eq(want, got interface{}, what string) {
	if fmt.Sprint(want) != fmt.Sprint(got) {
		panic(wrong{fmt.Sprintf("%s: wanted %v, got %v", what, want, got)})
	}
}
func No(err error, what string) {
	if err != nil {
		panic(wrong{what + ": " + err.Error()})
	}
}
func Skip(why string) { panic(skip{why}) }
func Wait(what string, secs int, f func() bool) {
	end := time.Now().Add(time.Duration(secs) * time.Second)
	for !f() {
		if time.Now().After(end) {
			panic(wrong{fmt.Sprintf("not within %d s: %s", secs, what)})
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Set gathers strings from several goroutines.
type Set struct {
	mu sync.Mutex
	m  map[string]int
	l  []string
	at []time.Time
}

func (s *Set) Add(x string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = map[string]int{}
	}
	s.m[x]++
	s.l = append(s.l, x)
	s.at = append(s.at, time.Now())
	return s.m[x]
}
func (s *Set) Len() int   { s.mu.Lock(); defer s.mu.Unlock(); return len(s.m) }
func (s *Set) Total() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.l) }
func (s *Set) Count(x string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[x]
}
func (s *Set) List() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.l...)
}
func (s *Set) Times() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time{}, s.at...)
}
func (s *Set) Keys() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var l []string
	for k := range s.m {
		l = append(l, k)
	}
	sort.Strings(l)
	return strings.Join(l, " ")
}
func Range(a, b int) string {
	var l []string
	for i := a; i < b; i++ {
		l = append(l, fmt.Sprintf("m%d", i))
	}
	sort.Strings(l)
	return strings.Join(l, " ")
}
func Sorted(l ...string) string { sort.Strings(l); return strings.Join(l, " ") }

// provision makes topics and groups of the cases; it returns why it could not.
func provision(ns, run string, todo []*Case) string {
	spec := []string{ns}
	for _, c := range todo {
		x := Ctx{Name: c.Name, Run: run}
		for _, t := range c.Topics {
			p := strings.SplitN(t, ":", 2)
			spec = append(spec, "topic:"+x.Topic(p[0])+":"+p[1])
		}
		for _, g := range c.Groups {
			p := strings.SplitN(g, ":", 2)
			s := "group:" + x.Group(p[0])
			if len(p) > 1 {
				s += ":" + p[1]
			}
			spec = append(spec, s)
		}
	}
	cmd := exec.Command(filepath.Join(os.Getenv("JUDGE_HERE"), "..", "java", "run.sh"), spec...)
	cmd.Env = append(os.Environ(), "JUDGE_MAIN=judge.Provision")
	if b, err := cmd.CombinedOutput(); err != nil {
		l := strings.Split(strings.TrimSpace(string(b)), "\n")
		return l[len(l)-1]
	}
	return ""
}

// spawn runs one case in a process of its own, for this client can crash the whole process; "" if it did.
func spawn(c *Case, run string) string {
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), "JUDGE_CHILD="+c.Name, "JUDGE_RUN="+run)
	if n, err := os.OpenFile(os.Getenv("JUDGE_NOISE"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err == nil {
		cmd.Stderr = n
		defer n.Close()
	}
	b, _ := cmd.Output()
	for _, l := range strings.Split(string(b), "\n") {
		for _, v := range []string{"PASS ", "FAIL ", "SKIP "} {
			if strings.HasPrefix(l, v+c.Name) {
				return l
			}
		}
	}
	return ""
}

// child runs the case and prints its verdict.
func child(c *Case, x *Ctx) {
	out := os.Stdout
	if n, err := os.OpenFile(os.Getenv("JUDGE_NOISE"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err == nil {
		os.Stdout, os.Stderr = n, n
	}
	res := make(chan interface{}, 1)
	go func() {
		defer func() {
			e := recover()
			switch e.(type) {
			case nil, wrong, skip:
			default:
				fmt.Fprintln(os.Stderr, c.Name, string(debug.Stack()))
			}
			res <- e
		}()
		c.Fn(x)
	}()
	var e interface{}
	select {
	case e = <-res:
	case <-time.After(time.Duration(c.Secs) * time.Second):
		e = wrong{fmt.Sprintf("not done within %d s", c.Secs)}
	}
	switch v := e.(type) {
	case nil:
		fmt.Fprintln(out, "PASS "+c.Name)
	case skip:
		fmt.Fprintln(out, "SKIP "+c.Name+": "+v.why)
	case wrong:
		fmt.Fprintln(out, "FAIL "+c.Name+": "+strings.Join(strings.Fields(v.why), " "))
	default:
		fmt.Fprintln(out, "FAIL "+c.Name+": "+strings.Join(strings.Fields(fmt.Sprint(v)), " "))
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		defer func() { recover() }()
		x.mu.Lock()
		l := x.closers
		x.mu.Unlock()
		for i := len(l) - 1; i >= 0; i-- {
			l[i]()
		}
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
	}
	os.Exit(0)
}

// Main parses the command line, makes topics and groups, runs the cases.
func Main() {
	var ns, only, not string
	jobs, list, times := 6, false, false
	a := os.Args[1:]
	for i := 0; i < len(a); i++ {
		switch a[i] {
		case "--only":
			i++
			only = "," + a[i] + ","
		case "--skip":
			i++
			not = "," + a[i] + ","
		case "--jobs":
			i++
			jobs, _ = strconv.Atoi(a[i])
		case "--list":
			list = true
		case "--times":
			times = true
		default:
			ns = a[i]
		}
	}
	var todo []*Case
	for _, c := range cases {
		if (only == "" || strings.Contains(only, ","+c.Name+",")) && !strings.Contains(not, ","+c.Name+",") {
			todo = append(todo, c)
		}
	}
	if list {
		for _, c := range todo {
			s := c.Name
			if c.Slow {
				s += "  slow"
			}
			fmt.Println(s)
		}
		return
	}
	if ns == "" {
		fmt.Fprintln(os.Stderr, "NAMESRV_ADDR wanted")
		os.Exit(2)
	}
	if name := os.Getenv("JUDGE_CHILD"); name != "" {
		for _, c := range cases {
			if c.Name == name {
				child(c, &Ctx{Name: name, NS: ns, Run: os.Getenv("JUDGE_RUN")})
			}
		}
		return
	}
	out := os.Stdout
	run := strconv.FormatInt(time.Now().UnixMilli()/100%1e8, 36) + strconv.FormatInt(int64(os.Getpid()), 36)
	if why := provision(ns, run, todo); why != "" {
		fmt.Fprintln(out, "FAIL setup: "+why)
		fmt.Fprintln(out, "0 passed, 1 failed")
		os.Exit(1)
	}
	sort.SliceStable(todo, func(i, j int) bool { return todo[i].Slow && !todo[j].Slow })
	var mu sync.Mutex
	passed, failed, skipped := 0, 0, 0
	ch := make(chan *Case, len(todo))
	for _, c := range todo {
		ch <- c
	}
	close(ch)
	var wg sync.WaitGroup
	for w := 0; w < jobs; w++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for c := range ch {
				t0 := time.Now()
				v := spawn(c, run)
				if v == "" { // the client library itself crashed: once more, with topics of its own
					if provision(ns, run+"r", []*Case{c}) == "" {
						v = spawn(c, run+"r")
					}
				}
				mu.Lock()
				switch {
				case strings.HasPrefix(v, "PASS"):
					passed++
				case strings.HasPrefix(v, "SKIP"):
					skipped++
				default:
					failed++
					if v == "" {
						v = "FAIL " + c.Name + ": the client crashed twice, see " + os.Getenv("JUDGE_NOISE")
					}
				}
				fmt.Fprintln(out, v)
				if times {
					fmt.Fprintf(out, "# %s %.1f s\n", c.Name, time.Since(t0).Seconds())
				}
				mu.Unlock()
			}
		}()
	}
	wg.Wait()
	fmt.Fprintf(out, "%d passed, %d failed", passed, failed)
	if skipped > 0 {
		fmt.Fprintf(out, ", %d skipped", skipped)
	}
	fmt.Fprintln(out)
	if failed > 0 {
		os.Exit(1)
	}
}
