import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicReference;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Makes a topic of four partitions in Kafka and puts records into it: the bodies that OrbitMQ gets. */
public final class Fill {
    private Fill() { }

    /** Arguments: bootstrap server, topic, size in bytes, count. */
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        try (Admin admin = Admin.create(settings)) {
            admin.createTopics(java.util.List.of(new NewTopic(args[1], 4, (short) 1))).all().get();
        }
        settings.put("linger.ms", "20");
        settings.put("batch.size", "262144");
        byte[] body = new byte[Integer.parseInt(args[2])];
        new Random(7).nextBytes(body);
        int count = Integer.parseInt(args[3]);
        AtomicReference<Exception> failure = new AtomicReference<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = 0; i < count; i++) {
                producer.send(new ProducerRecord<>(args[1], i % 4, null, body), (made, error) -> {
                    if (error != null) {
                        failure.compareAndSet(null, error);
                    }
                });
            }
        }
        if (failure.get() != null) {
            throw failure.get();
        }
    }
}
