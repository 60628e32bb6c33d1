import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends messages with unique ids, and consumes them, with signed requests, until told to stop on standard input. Prints
 * `acked ID` and `got ID`; behind the end of sending, `sent`.
 */
public class Ids {
    public static void main(String[] args) throws Exception {
        String namesrv = args[0], topic = args[1];
        AclClientRPCHook hook = new AclClientRPCHook(new SessionCredentials(args[2], args[3]));
        int lookMs = Integer.parseInt(args[4]);
        DefaultMQPushConsumer consumer =
                new DefaultMQPushConsumer("java-watchers", hook, new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(namesrv);
        consumer.setPollNameServerInterval(lookMs);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                System.out.println("got " + new String(message.getBody()));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = new DefaultMQProducer("java-movers", hook);
        producer.setNamesrvAddr(namesrv);
        producer.setPollNameServerInterval(lookMs);
        producer.start();
        for (int number = 0; System.in.available() == 0; number++) {
            String id = "j-" + number;
            try {
                SendResult sent = producer.send(new Message(topic, id.getBytes()), 3000);
                if (sent.getSendStatus() == SendStatus.SEND_OK) {
                    System.out.println("acked " + id);
                }
            } catch (Exception e) {
                System.err.println("failed " + id + " " + e.toString().replace('\n', ' '));
            }
            Thread.sleep(20);
        }
        System.out.println("sent");
        while (System.in.read() >= 0) {
        }
        producer.shutdown();
        consumer.shutdown();
        System.exit(0);
    }
}
