import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** Sends and consumes until told to stop on standard input; one line per send: broker, ms, status. */
public class Moving {
    public static void main(String[] args) throws Exception {
        String namesrv = args[0], topic = args[1];
        AtomicInteger got = new AtomicInteger();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("moving-consumer");
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            got.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = new DefaultMQProducer("moving-producer");
        producer.setNamesrvAddr(namesrv);
        producer.start();
        while (System.in.available() == 0) {
            long began = System.nanoTime();
            String what;
            try {
                SendResult sent = producer.send(new Message(topic, "x".getBytes()), 10000);
                what = sent.getMessageQueue().getBrokerName() + " " + sent.getSendStatus();
            } catch (Exception e) {
                what = "none " + e.toString().replace('\n', ' ');
            }
            System.out.println("sent " + (System.nanoTime() - began) / 1000000 + " " + what);
            Thread.sleep(5);
        }
        System.out.println("got " + got.get());
        producer.shutdown();
        consumer.shutdown();
        System.exit(0);
    }
}
