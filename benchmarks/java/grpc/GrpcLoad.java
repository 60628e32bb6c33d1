import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Collections;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/**
 * One load at a fixed rate: ADDRESS KIND TOPIC GROUP. KIND is `send` or `both` (a push consumer as well) through a proxy, `direct` with
 * the remoting client. Each line of the input, SECONDS RATE, is answered with: messages, errors, consumed, p50 and p99 in
 * microseconds.
 */
public final class GrpcLoad {
    private static final int THREADS = 16;
    private static final byte[] BODY = new byte[1024];

    private interface Send {
        void one() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        String address = args[0], kind = args[1], topic = args[2], group = args[3];
        AtomicLong consumed = new AtomicLong();
        Send send;
        if (kind.equals("direct")) {
            DefaultMQProducer producer = new DefaultMQProducer(group);
            producer.setNamesrvAddr(address);
            producer.start();
            send = () -> producer.send(new org.apache.rocketmq.common.message.Message(topic, BODY));
        } else {
            ClientServiceProvider provider = ClientServiceProvider.loadService();
            ClientConfiguration configuration = ClientConfiguration.newBuilder().setEndpoints(address).enableSsl(false).build();
            if (kind.equals("both")) {
                provider.newPushConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(group)
                    .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL))
                    .setMessageListener(message -> {
                        consumed.incrementAndGet();
                        return ConsumeResult.SUCCESS;
                    }).build();
            }
            Producer producer = provider.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
            send = () -> producer.send(provider.newMessageBuilder().setTopic(topic).setBody(BODY).build());
        }
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = input.readLine()) != null;) {
            String[] words = line.split(" ");
            run(send, Double.parseDouble(words[0]), Double.parseDouble(words[1]), consumed);
        }
        System.exit(0);
    }

    private static void run(Send send, double seconds, double rate, AtomicLong consumed) throws Exception {
        ConcurrentLinkedQueue<Long> times = new ConcurrentLinkedQueue<>();
        AtomicLong errors = new AtomicLong(), before = new AtomicLong(consumed.get());
        long begin = System.nanoTime(), end = begin + (long) (seconds * 1e9);
        double pause = 1e9 * THREADS / rate;
        Thread[] threads = new Thread[THREADS];
        for (int i = 0; i < THREADS; i++) {
            double first = begin + pause * i / THREADS;
            threads[i] = new Thread(() -> {
                for (long n = 0;; n++) {
                    long due = (long) (first + pause * n);
                    if (due >= end) {
                        return;
                    }
                    long wait = due - System.nanoTime();
                    if (wait > 0) {
                        LockSupport.parkNanos(wait);
                    }
                    long began = System.nanoTime();
                    try {
                        send.one();
                        times.add(System.nanoTime() - began);
                    } catch (Exception e) {
                        errors.incrementAndGet();
                    }
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        long[] sorted = times.stream().mapToLong(Long::longValue).sorted().toArray();
        System.out.println(sorted.length + " " + errors + " " + (consumed.get() - before.get()) + " "
            + at(sorted, 0.5) + " " + at(sorted, 0.99));
    }

    private static long at(long[] sorted, double part) {
        return sorted.length == 0 ? 0 : sorted[(int) (part * (sorted.length - 1))] / 1000;
    }
}
