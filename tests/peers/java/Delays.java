import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends at once, in order, with a delay level and through the delay service in both of its forms, and consumes all of it,
 * until told to stop on standard input. Prints `sent` and `got TOPIC MS BODY|KEYS|TAGS|from_chronos|delay.id`.
 */
public class Delays {
    static DefaultMQProducer producer;

    public static void main(String[] args) throws Exception {
        String uuid = args[1];
        long second = System.currentTimeMillis() / 1000 + 2;
        DefaultMQPushConsumer consumer = consumer("java-delays", args[0], "plain", "due");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            print(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQPushConsumer ordered = consumer("java-ordered", args[0], "ordered");
        ordered.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            print(messages);
            return ConsumeOrderlyStatus.SUCCESS;
        });
        ordered.start();
        producer = new DefaultMQProducer("java-delays");
        producer.setNamesrvAddr(args[0]);
        producer.start();
        Message plain = new Message("plain", "tag", "key-1", "plain".getBytes());
        send(plain, "");
        for (int number = 0; number < 8; number++) {
            send(new Message("ordered", ("o" + number).getBytes()), "one queue");
        }
        Message level = new Message("plain", "level".getBytes());
        level.setDelayTimeLevel(1);
        send(level, "");
        Message named = new Message("orbitmq_delay", "a", "key-2", "named".getBytes());
        named.putUserProperty("delay.topic", "due");
        named.putUserProperty("delay.at", Long.toString(second * 1000));
        named.putUserProperty("delay.id", "java-1");
        send(named, "java-1");
        String id = second + "-2-" + (second + 172800) + "-0-0-0-0-" + uuid;
        send(new Message("inner", "b", id, ddmq(1, "ddmq", id).getBytes()), uuid);
        String gone = second + 3600 + "-2-" + (second + 176400) + "-0-0-0-0-c" + uuid;
        send(new Message("inner", "", gone, ddmq(1, "gone", gone).getBytes()), "c" + uuid);
        send(new Message("inner", "", gone, ddmq(2, "c", gone).getBytes()), "c" + uuid);
        System.out.println("sent " + second);
        while (System.in.read() >= 0) {
        }
        Runtime.getRuntime().halt(0);  // a clean end of these clients takes seconds
    }

    static DefaultMQPushConsumer consumer(String group, String namesrv, String... topics) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        for (String topic : topics) {
            consumer.subscribe(topic, "*");
        }
        return consumer;
    }

    /** Sends to the queue of `key`, or to any. */
    static void send(Message message, String key) throws Exception {
        SendResult sent = key.isEmpty()
                ? producer.send(message, 60000)
                : producer.send(
                        message, (queues, m, k) -> queues.get(Math.floorMod(k.hashCode(), queues.size())), key, 60000);
        if (sent.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException(sent.toString());
        }
    }

    static String ddmq(int action, String body, String id) {
        return "{\"action\":" + action + ",\"body\":\"" + body + "\",\"properties\":{\"p\":\"1\"},\"tags\":\"b\","
                + "\"topic\":\"due\",\"uniqDelayMsgId\":\"" + id + "\"}";
    }

    static void print(List<MessageExt> messages) {
        for (MessageExt message : messages) {
            System.out.println("got " + message.getTopic() + " " + message.getStoreTimestamp() + " "
                    + new String(message.getBody()) + "|" + message.getKeys() + "|" + message.getTags() + "|"
                    + message.getUserProperty("from_chronos") + "|" + message.getUserProperty("delay.id"));
        }
    }
}
