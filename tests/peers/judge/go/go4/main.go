// Cases with github.com/apache/rocketmq-client-go/v2 (remoting protocol).
package main

import (
	"context"
	"os"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
	. "judge/go/runner"
)

func main() {
	rlog.SetLogLevel("fatal")
	rlog.SetOutputPath(os.DevNull)
	Main()
}

func creds() primitive.Credentials {
	return primitive.Credentials{AccessKey: os.Getenv("JUDGE_AK"), SecretKey: os.Getenv("JUDGE_SK")}
}

func prod(c *Ctx, opts ...producer.Option) rocketmq.Producer {
	o := []producer.Option{producer.WithNameServer(primitive.NamesrvAddr{c.NS}), producer.WithGroupName(c.Fresh("p")),
		producer.WithInstanceName(c.Fresh("i")), producer.WithRetry(1), producer.WithSendMsgTimeout(10 * time.Second)}
	if creds().AccessKey != "" {
		o = append(o, producer.WithCredentials(creds()))
	}
	p, err := rocketmq.NewProducer(append(o, opts...)...)
	No(err, "NewProducer")
	No(p.Start(), "start of the producer")
	c.OnClose(func() { p.Shutdown() })
	return p
}

type handler func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

func push(c *Ctx, group, topic string, sel consumer.MessageSelector, h handler, opts ...consumer.Option) rocketmq.PushConsumer {
	o := []consumer.Option{consumer.WithNameServer(primitive.NamesrvAddr{c.NS}), consumer.WithGroupName(group),
		consumer.WithInstance(c.Fresh("i")), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset)}
	if creds().AccessKey != "" {
		o = append(o, consumer.WithCredentials(creds()))
	}
	s, err := rocketmq.NewPushConsumer(append(o, opts...)...)
	No(err, "NewPushConsumer")
	No(s.Subscribe(topic, sel, h), "subscribe")
	No(s.Start(), "start of the consumer")
	c.OnClose(func() { s.Shutdown() })
	return s
}

func gather(s *Set) handler {
	return func(_ context.Context, l ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range l {
			s.Add(string(m.Body))
		}
		return consumer.ConsumeSuccess, nil
	}
}

func msg(topic, tag, body string) *primitive.Message {
	m := primitive.NewMessage(topic, []byte(body))
	if tag != "" {
		m.WithTag(tag)
	}
	return m
}

func send(p rocketmq.Producer, m *primitive.Message) *primitive.SendResult {
	r, err := p.SendSync(context.Background(), m)
	No(err, "send")
	Eq(primitive.SendOK, r.Status, "send status")
	return r
}
