import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;

import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Everything that sends. One producer per broker and kind, kept until the end. */
final class Sends {
    private static final Map<String, DefaultMQProducer> PRODUCERS = new ConcurrentHashMap<>();
    private static final int LARGE_BYTES = 4 << 20;

    private final Load.Args args;
    private final byte[] body;

    Sends(Load.Args args) {
        this.args = args;
        body = new byte[args.number("size")];
        new Random(7).nextBytes(body);
    }

    /** Lets go of a broker that is gone. */
    static void forget(String namesrv) {
        PRODUCERS.entrySet().removeIf(entry -> {
            boolean isOfIt = entry.getKey().endsWith(namesrv);
            if (isOfIt) {
                entry.getValue().shutdown();
            }
            return isOfIt;
        });
        Load.say("idle");
    }

    private interface Send {
        /** Sends once; gives how many messages that were. */
        int once() throws Exception;
    }

    DefaultMQProducer producer() throws Exception {
        return producer("plain", new DefaultMQProducer("benchmark_producer", args.signing()));
    }

    private DefaultMQProducer producer(String kind, DefaultMQProducer made) throws Exception {
        String address = args.text("namesrv");
        DefaultMQProducer known = PRODUCERS.get(kind + address);
        if (known != null) {
            return known;
        }
        args.connecting(made);
        made.setInstanceName("load-" + PRODUCERS.size());
        made.setMqClientApiTimeout(30_000);
        made.setMaxMessageSize(LARGE_BYTES);
        made.setCompressMsgBodyOverHowmuch(LARGE_BYTES * 2); // bodies travel as they are, whatever their size
        made.setRetryTimesWhenSendFailed(0);
        made.setRetryTimesWhenSendAsyncFailed(0);
        made.start();
        PRODUCERS.put(kind + address, made);
        return made;
    }

    private TransactionMQProducer transactions() throws Exception {
        TransactionMQProducer made = new TransactionMQProducer("benchmark_transactions", args.signing());
        made.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object arg) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        return (TransactionMQProducer) producer("transaction", made);
    }

    static List<Message> batchOf(int count, String topic, byte[] body) {
        List<Message> batch = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            batch.add(new Message(topic, body));
        }
        return batch;
    }

    private Send sendOf(String op) throws Exception {
        String topic = args.text("topic");
        DefaultMQProducer producer = producer();
        switch (op) {
            case "batch":
                int count = args.number("batch");
                return () -> expect(producer.send(batchOf(count, topic, body)), count);
            case "ordered":
                SelectMessageQueueByHash byHash = new SelectMessageQueueByHash();
                return () -> {
                    int key = ThreadLocalRandom.current().nextInt(1000);
                    Message message = new Message(topic, body);
                    message.putUserProperty("order", String.valueOf(key));
                    return expect(producer.send(message, byHash, key), 1);
                };
            case "transaction":
                TransactionMQProducer transactions = transactions();
                return () -> expect(transactions.sendMessageInTransaction(new Message(topic, body), null), 1);
            case "delay":
                return () -> {
                    Message message = new Message(topic, body);
                    message.setDelayTimeLevel(1);
                    return expect(producer.send(message), 1);
                };
            default:
                return () -> expect(producer.send(new Message(topic, body)), 1);
        }
    }

    private static int expect(SendResult result, int messages) {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException(result.getSendStatus().name());
        }
        return messages;
    }

    /** Threads that send one after another, until they are told to stop. */
    private Runnable startThreads(Send send, int threads, int perSend, Window window) {
        AtomicBoolean stop = new AtomicBoolean();
        CountDownLatch done = new CountDownLatch(threads);
        for (int i = 0; i < threads; i++) {
            Load.start("sender-" + i, () -> {
                while (!stop.get()) {
                    long from = System.nanoTime();
                    try {
                        window.messages.add(send.once());
                        window.latency.add(System.nanoTime() - from);
                    } catch (Exception e) {
                        window.fail(perSend, e.toString());
                    }
                }
                done.countDown();
            });
        }
        return () -> {
            stop.set(true);
            Load.await(done);
        };
    }

    /** Sends from several threads for ramp + seconds; what was accepted within the last "seconds" counts. */
    void threads(String op) throws Exception {
        Window window = new Window();
        int perSend = op.equals("batch") ? args.number("batch") : 1;
        Runnable stop = startThreads(sendOf(op), args.number("threads"), perSend, window);
        Thread.sleep(1000L * args.number("ramp"));
        window.measure(args.number("seconds"));
        stop.run();
        Load.say("idle");
    }

    /** The same threads beside a consumer that reads what they send. Both ends of a message count as one. */
    void mixed() throws Exception {
        Window window = new Window();
        sendOf("sync").once(); // makes the topic, so that the consumer finds it
        try (Consumes consumes = new Consumes(args)) {
            consumes.startListening(messages -> { });
            Runnable stop = startThreads(sendOf("sync"), args.number("threads"), 1, window);
            Thread.sleep(1000L * args.number("ramp"));
            window.measure(args.number("seconds"));
            stop.run();
        }
        Load.say("idle");
    }

    /** Sends at a fixed rate and takes the time until a listener has a message, from when it was due. */
    void latency() throws Exception {
        Window window = new Window();
        int rate = args.number("rate");
        AtomicBoolean stop = new AtomicBoolean();
        DefaultMQProducer producer = producer();
        String topic = args.text("topic");
        long epoch = System.nanoTime();
        sendOf("sync").once(); // makes the topic, so that the consumer finds it
        try (Consumes consumes = new Consumes(args)) {
            consumes.startListening(messages -> {
                long now = System.nanoTime() - epoch;
                for (MessageExt message : messages) {
                    String due = message.getUserProperty("due");
                    if (due != null && Long.parseLong(due.substring(0, 8), 16) == (epoch & 0xFFFFFFFL)) {
                        window.latency.add(now - Long.parseLong(due.substring(8)));
                        window.messages.increment();
                    }
                }
            });
            Thread sender = Load.start("sender", () -> {
                long from = System.nanoTime();
                for (long n = 0; !stop.get(); n++) {
                    long due = from + n * 1_000_000_000L / rate;
                    for (long left; (left = due - System.nanoTime()) > 0; ) {
                        java.util.concurrent.locks.LockSupport.parkNanos(left);
                    }
                    Message message = new Message(topic, body);
                    message.putUserProperty("due", String.format("%08x%d", epoch & 0xFFFFFFFL, due - epoch));
                    try {
                        producer.send(message, counting(window, null));
                    } catch (Exception e) {
                        window.fail(1, e.toString());
                    }
                }
            });
            Thread.sleep(1000L * args.number("ramp"));
            window.measure(args.number("seconds"));
            stop.set(true);
            sender.join();
        }
        Load.say("idle");
    }

    private static SendCallback counting(Window window, Semaphore room) {
        long from = System.nanoTime();
        return new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                if (room != null) {
                    window.latency.add(System.nanoTime() - from);
                    room.release();
                    if (result.getSendStatus() == SendStatus.SEND_OK) {
                        window.messages.increment();
                        return;
                    }
                }
                if (result.getSendStatus() != SendStatus.SEND_OK) {
                    window.fail(1, result.getSendStatus().name());
                }
            }

            @Override
            public void onException(Throwable e) {
                window.fail(1, String.valueOf(e));
                if (room != null) {
                    room.release();
                }
            }
        };
    }

    void async() throws Exception {
        Window window = new Window();
        DefaultMQProducer producer = producer();
        String topic = args.text("topic");
        int open = args.number("in_flight");
        Semaphore room = new Semaphore(open);
        AtomicBoolean stop = new AtomicBoolean();
        Thread sender = Load.start("sender", () -> {
            while (!stop.get()) {
                room.acquireUninterruptibly();
                SendCallback callback = counting(window, room);
                try {
                    producer.send(new Message(topic, body), callback);
                } catch (Exception e) {
                    callback.onException(e);
                }
            }
        });
        Thread.sleep(1000L * args.number("ramp"));
        window.measure(args.number("seconds"));
        stop.set(true);
        sender.join();
        room.acquire(open);
        Load.say("idle");
    }

    /** Nobody answers a one-way send: what counts is by how much the queues have grown. */
    void oneway() throws Exception {
        Window window = new Window();
        DefaultMQProducer producer = producer();
        String topic = args.text("topic");
        expect(producer.send(new Message(topic, body)), 1);
        // A connection of its own: an answer must not wait behind what is being sent.
        DefaultMQProducer probe = producer("probe", new DefaultMQProducer("benchmark_probe", args.signing()));
        List<MessageQueue> queues = probe.fetchPublishMessageQueues(topic);
        int threads = args.number("threads");
        AtomicBoolean stop = new AtomicBoolean();
        CountDownLatch done = new CountDownLatch(threads);
        for (int i = 0; i < threads; i++) {
            Load.start("sender-" + i, () -> {
                while (!stop.get()) {
                    try {
                        // The client waits for a permit on the thread that gives permits back: with more than
                        // 65,535 sends on their way it stands still. So every 500th is one that is answered.
                        for (int n = 1; n < 500; n++) {
                            producer.sendOneway(new Message(topic, body));
                        }
                        expect(producer.send(new Message(topic, body), 30_000), 1);
                    } catch (Exception e) {
                        window.fail(1, e.toString());
                    }
                }
                done.countDown();
            });
        }
        Thread.sleep(1000L * args.number("ramp"));
        long before = stored(probe, queues);
        window.open();
        Thread.sleep(1000L * args.number("seconds"));
        window.close(stored(probe, queues) - before);
        stop.set(true);
        done.await();
        expect(producer.send(new Message(topic, body), 120_000), 1); // behind all that is still on its way
        Load.say("idle");
    }

    private static long stored(DefaultMQProducer producer, List<MessageQueue> queues) throws Exception {
        long total = 0;
        for (MessageQueue queue : queues) {
            total += producer.maxOffset(queue);
        }
        return total;
    }

    /** Requests without a client: see Raw. */
    void raw() throws Exception {
        Window window = new Window();
        String topic = args.text("topic");
        expect(producer().send(new Message(topic, body)), 1); // makes the topic
        List<Raw> connections = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < args.number("threads"); i++) {
            Raw raw = new Raw(args.text("broker"), topic, body, args.number("batch"), i, args.number("in_flight"), window);
            connections.add(raw);
            threads.add(Load.start("raw-" + i, raw));
        }
        Thread.sleep(1000L * args.number("ramp"));
        window.measure(args.number("seconds"));
        connections.forEach(Raw::stop);
        for (Thread thread : threads) {
            thread.join();
        }
        Load.say("idle");
    }

    /** Puts exactly "count" messages into a topic, in batches of up to a MiB. */
    void fill() throws Exception {
        DefaultMQProducer producer = producer();
        if (args.number("queues") > 0) {
            makeTopic(producer, args.text("topic"), args.number("queues"));
        }
        int most = Math.max(1, Math.min(64, (1 << 20) / (body.length + 100)));
        AtomicLong left = new AtomicLong(args.number("count"));
        AtomicReference<Exception> failure = new AtomicReference<>();
        Thread[] workers = new Thread[8];
        for (int i = 0; i < workers.length; i++) {
            workers[i] = Load.start("filler-" + i, () -> {
                for (long had; (had = left.getAndAdd(-most)) > 0; ) {
                    List<Message> batch = batchOf((int) Math.min(most, had), args.text("topic"), body);
                    for (int tries = 0; ; tries++) {
                        try {
                            expect(producer.send(batch, 10_000), 1);
                            break;
                        } catch (Exception e) {
                            if (tries == 100) {
                                failure.compareAndSet(null, e);
                                return;
                            }
                            Load.sleep(50);
                        }
                    }
                }
            });
        }
        for (Thread worker : workers) {
            worker.join();
        }
        if (failure.get() != null) {
            throw failure.get();
        }
        Load.say("idle");
    }

    /** Returns when the name server knows all queues: until then a send would choose among fewer. */
    private static void makeTopic(DefaultMQProducer producer, String topic, int queues) throws Exception {
        producer.createTopic("TBW102", topic, queues, Map.of());
        for (int tries = 0; tries < 200; tries++) {
            try {
                if (producer.fetchPublishMessageQueues(topic).size() == queues) {
                    return;
                }
            } catch (MQClientException e) {
                // no route yet
            }
            Load.sleep(50);
        }
        throw new IllegalStateException(topic + " has no " + queues + " queues");
    }
}
