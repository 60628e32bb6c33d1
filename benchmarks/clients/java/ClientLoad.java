import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.LongAdder;

import com.sun.management.OperatingSystemMXBean;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.exception.RemotingException;

/** Apache's client: ROW ADDRESS TOPIC WARM_UP_S WINDOW_S [MESSAGES]. */
public final class ClientLoad {
    private static final LongAdder SENT = new LongAdder();
    private static final int AT_A_TIME = 64;
    private static final int BATCH = 100;

    public static void main(String[] args) throws Exception {
        String row = args[0];
        double warmUp = Double.parseDouble(args[3]);
        double window = Double.parseDouble(args[4]);
        long most = row.equals("consume") ? Long.parseLong(args[5]) : Long.MAX_VALUE;
        Thread measuring = new Thread(() -> measure(warmUp, window, most));
        measuring.setDaemon(true);
        measuring.start();
        if (row.equals("consume")) {
            consume(args[1], args[2]);
            Thread.sleep(Long.MAX_VALUE);
        }
        send(row, args[1], args[2]);
    }

    private static void measure(double warmUp, double window, long most) {
        try {
            OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
            Thread.sleep((long) (warmUp * 1000));
            while (SENT.sum() == 0) {
                Thread.sleep(1);
            }
            long before = SENT.sum();
            long cpu = system.getProcessCpuTime();
            long began = System.nanoTime();
            while (System.nanoTime() - began < window * 1e9 && SENT.sum() < most) {
                Thread.sleep(5);
            }
            System.out.printf("{\"messages\": %d, \"seconds\": %s, \"cpu_seconds\": %s}%n", SENT.sum() - before,
                (System.nanoTime() - began) / 1e9, (system.getProcessCpuTime() - cpu) / 1e9);
            System.out.flush();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void send(String row, String address, String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("benchmark");
        producer.setNamesrvAddr(address);
        producer.start();
        byte[] body = new byte[128];
        Semaphore free = new Semaphore(AT_A_TIME);
        while (true) {
            try {
                once(producer, row, topic, body, free);
            } catch (RemotingException | MQClientException | MQBrokerException error) {
                System.err.println(error); // a machine that is short of CPU: the next one may be in time
            }
        }
    }

    private static void once(DefaultMQProducer producer, String row, String topic, byte[] body, Semaphore free)
        throws Exception {
        if (row.equals("awaited")) {
            producer.send(new Message(topic, body));
            SENT.increment();
        } else if (row.equals("batch")) {
            List<Message> batch = new ArrayList<>(BATCH);
            for (int one = 0; one < BATCH; one++) {
                batch.add(new Message(topic, body));
            }
            producer.send(batch);
            SENT.add(BATCH);
        } else {
            free.acquire();
            producer.send(new Message(topic, body), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    SENT.increment();
                    free.release();
                }

                @Override
                public void onException(Throwable error) {
                    error.printStackTrace();
                    free.release();
                }
            });
        }
    }

    private static void consume(String address, String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("benchmark-" + UUID.randomUUID());
        consumer.setNamesrvAddr(address);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            SENT.add(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }
}
