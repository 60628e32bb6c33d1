import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * One JVM that loads whichever broker a line on its standard input names, so that both brokers meet the
 * same client with the same compiled code. Lines are "op key=value ..."; the answers are "begin", printed
 * when the measured window opens, and "end {json}" when it closes. The reader samples the broker's CPU
 * time at these two lines. End of input ends the process.
 */
public final class Load {
    private static final PrintStream ANSWERS = System.out;
    private static final Map<String, DefaultMQProducer> PRODUCERS = new ConcurrentHashMap<>();

    private final Map<String, String> args;

    private Load(Map<String, String> args) {
        this.args = args;
    }

    public static void main(String[] argv) throws Exception {
        System.setOut(System.err); // the client's logger prints to standard output
        say("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.trim().split(" ");
            Map<String, String> args = new HashMap<>();
            for (int i = 1; i < words.length; i++) {
                int at = words[i].indexOf('=');
                args.put(words[i].substring(0, at), words[i].substring(at + 1));
            }
            try {
                new Load(args).run(words[0]);
            } catch (Throwable e) {
                e.printStackTrace();
                say("error " + e.toString().replace('\n', ' '));
            }
        }
        System.exit(0);
    }

    private void run(String op) throws Exception {
        switch (op) {
            case "sync": case "batch": case "async": send(op); break;
            case "fill": fill(); break;
            case "consume": consume(); break;
            default: throw new IllegalArgumentException("unknown op " + op);
        }
    }

    private int number(String key) {
        return Integer.parseInt(args.get(key));
    }

    private DefaultMQProducer producer() throws Exception {
        String address = args.get("namesrv");
        DefaultMQProducer known = PRODUCERS.get(address);
        if (known != null) {
            return known;
        }
        DefaultMQProducer producer = new DefaultMQProducer("benchmark_producer");
        producer.setNamesrvAddr(address);
        producer.setInstanceName("load-" + PRODUCERS.size());
        producer.start();
        PRODUCERS.put(address, producer);
        return producer;
    }

    private byte[] body() {
        byte[] body = new byte[number("size")];
        new Random(7).nextBytes(body);
        return body;
    }

    private static List<Message> batchOf(int count, String topic, byte[] body) {
        List<Message> batch = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            batch.add(new Message(topic, body));
        }
        return batch;
    }

    /** Sends for ramp + seconds; what was accepted within the last "seconds" counts. */
    private void send(String op) throws Exception {
        DefaultMQProducer producer = producer();
        String topic = args.get("topic");
        byte[] body = body();
        int threads = number("threads");
        int batch = op.equals("batch") ? number("batch") : 1;
        LongAdder accepted = new LongAdder();
        LongAdder failed = new LongAdder();
        Latency latency = new Latency();
        AtomicReference<String> firstError = new AtomicReference<>();
        Semaphore room = new Semaphore(op.equals("async") ? number("in_flight") : threads);
        AtomicBoolean stop = new AtomicBoolean();
        CountDownLatch done = new CountDownLatch(threads);
        for (int i = 0; i < threads; i++) {
            Thread worker = new Thread(() -> {
                try {
                    while (!stop.get()) {
                        if (op.equals("async")) {
                            room.acquire();
                            sendAsync(producer, new Message(topic, body), room, accepted, failed, firstError, latency);
                            continue;
                        }
                        long from = System.nanoTime();
                        try {
                            SendResult result = batch == 1
                                ? producer.send(new Message(topic, body))
                                : producer.send(batchOf(batch, topic, body));
                            count(result, batch, accepted, failed, firstError);
                            latency.add(System.nanoTime() - from);
                        } catch (Exception e) {
                            failed.add(batch);
                            firstError.compareAndSet(null, e.toString());
                        }
                    }
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                } finally {
                    done.countDown();
                }
            }, "sender-" + i);
            worker.setDaemon(true);
            worker.start();
        }
        Thread.sleep(1000L * number("ramp"));
        latency.clear();
        long acceptedBefore = accepted.sum();
        long failedBefore = failed.sum();
        long from = System.nanoTime();
        say("begin");
        Thread.sleep(1000L * number("seconds"));
        long messages = accepted.sum() - acceptedBefore;
        long errors = failed.sum() - failedBefore;
        long took = System.nanoTime() - from;
        say("end " + report(messages, took, errors, firstError.get(), latency));
        stop.set(true);
        done.await();
        if (op.equals("async")) {
            room.acquire(number("in_flight"));
        }
        say("idle");
    }

    private static void sendAsync(DefaultMQProducer producer, Message message, Semaphore room, LongAdder accepted,
            LongAdder failed, AtomicReference<String> firstError, Latency latency) {
        long from = System.nanoTime();
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                latency.add(System.nanoTime() - from);
                count(result, 1, accepted, failed, firstError);
                room.release();
            }

            @Override
            public void onException(Throwable e) {
                failed.increment();
                firstError.compareAndSet(null, String.valueOf(e));
                room.release();
            }
        };
        try {
            producer.send(message, callback);
        } catch (Exception e) {
            callback.onException(e);
        }
    }

    private static void count(SendResult result, int messages, LongAdder accepted, LongAdder failed,
            AtomicReference<String> firstError) {
        if (result.getSendStatus() == SendStatus.SEND_OK) {
            accepted.add(messages);
        } else {
            failed.add(messages);
            firstError.compareAndSet(null, result.getSendStatus().name());
        }
    }

    /** Puts exactly "count" messages into a topic, in batches. */
    private void fill() throws Exception {
        DefaultMQProducer producer = producer();
        byte[] body = body();
        int count = number("count");
        AtomicLong left = new AtomicLong(count);
        AtomicReference<Exception> failure = new AtomicReference<>();
        Thread[] workers = new Thread[8];
        for (int i = 0; i < workers.length; i++) {
            workers[i] = new Thread(() -> {
                for (long had; (had = left.getAndAdd(-64)) > 0; ) {
                    List<Message> batch = batchOf((int) Math.min(64, had), args.get("topic"), body);
                    for (int tries = 0; ; tries++) {
                        try {
                            if (producer.send(batch, 10_000).getSendStatus() == SendStatus.SEND_OK) {
                                break;
                            }
                        } catch (Exception e) {
                            if (tries == 20) {
                                failure.compareAndSet(null, e);
                                return;
                            }
                        }
                    }
                }
            });
            workers[i].start();
        }
        for (Thread worker : workers) {
            worker.join();
        }
        if (failure.get() != null) {
            throw failure.get();
        }
        say("idle");
    }

    /** A new group reads "count" messages from the start of a topic; the window opens after "skip" of them. */
    private void consume() throws Exception {
        int count = number("count");
        int skip = number("skip");
        AtomicLong seen = new AtomicLong();
        AtomicLong opened = new AtomicLong();
        CountDownLatch done = new CountDownLatch(1);
        AtomicLong closed = new AtomicLong();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args.get("group"));
        consumer.setNamesrvAddr(args.get("namesrv"));
        consumer.setInstanceName(args.get("group"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args.get("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long now = seen.addAndGet(messages.size());
            long before = now - messages.size();
            if (before < skip && now >= skip) {
                opened.set(System.nanoTime());
                say("begin");
            }
            if (before < count && now >= count) {
                closed.set(System.nanoTime());
                done.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        done.await();
        say("end " + report(count - skip, closed.get() - opened.get(), 0, null, null));
        consumer.shutdown();
        say("idle");
    }

    private static String report(long messages, long tookNanos, long errors, String firstError, Latency latency) {
        StringBuilder json = new StringBuilder("{\"messages\":").append(messages);
        json.append(",\"seconds\":").append(tookNanos / 1e9).append(",\"errors\":").append(errors);
        if (firstError != null) {
            json.append(",\"first_error\":\"");
            json.append(firstError.replace("\\", "\\\\").replace("\"", "'").replaceAll("\\s+", " ")).append('"');
        }
        if (latency != null) {
            json.append(",\"p50_us\":").append(latency.quantile(0.5) / 1000);
            json.append(",\"p99_us\":").append(latency.quantile(0.99) / 1000);
        }
        return json.append('}').toString();
    }

    private static void say(String line) {
        synchronized (ANSWERS) {
            ANSWERS.println(line);
            ANSWERS.flush();
        }
    }

    /** Latencies in buckets that are 1/16 of a power of two wide. */
    private static final class Latency {
        private final AtomicLongArray buckets = new AtomicLongArray(64 * 16);

        void add(long nanos) {
            int exponent = 63 - Long.numberOfLeadingZeros(Math.max(nanos, 16));
            buckets.incrementAndGet(exponent * 16 + (int) ((nanos >> (exponent - 4)) & 15));
        }

        void clear() {
            for (int i = 0; i < buckets.length(); i++) {
                buckets.set(i, 0);
            }
        }

        double quantile(double share) {
            long total = 0;
            for (int i = 0; i < buckets.length(); i++) {
                total += buckets.get(i);
            }
            long rank = (long) (total * share);
            for (int i = 0; i < buckets.length(); i++) {
                rank -= buckets.get(i);
                if (rank < 0) {
                    return (double) (1L << (i / 16)) * (1 + (i % 16) / 16.0);
                }
            }
            return 0;
        }
    }
}
