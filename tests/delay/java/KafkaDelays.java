import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Sends a record through the delay service and reads its topic until the record comes. Prints its parts as lines. */
public class KafkaDelays {
    public static void main(String[] args) throws Exception {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", args[0]));
        TopicPartition orders = new TopicPartition("orders", 0);
        byte[] body = {0, (byte) 200, (byte) 255, 'j'};
        try (KafkaProducer<byte[], byte[]> producer =
                        new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
                KafkaConsumer<byte[], byte[]> consumer =
                        new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(orders));
            consumer.seekToBeginning(List.of(orders));
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>("orbitmq_delay", utf8("key"), body);
            record.headers().add("delay.topic", utf8("orders")).add("delay.after", utf8("200ms"));
            record.headers().add("delay.id", utf8("java")).add("own", new byte[] {(byte) 255});
            producer.send(record).get();
            while (true) {
                for (ConsumerRecord<byte[], byte[]> one : consumer.poll(Duration.ofSeconds(1))) {
                    Header id = one.headers().lastHeader("delay.id");
                    if (id != null && new String(id.value(), StandardCharsets.UTF_8).equals("java")) {
                        System.out.println(hex(one.key()) + " " + hex(one.value()) + " " + one.timestamp());
                        for (Header header : one.headers()) {
                            System.out.println(header.key() + " " + hex(header.value()));
                        }
                        return;
                    }
                }
            }
        }
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte one : bytes) {
            text.append(String.format("%02x", one));
        }
        return text.toString();
    }
}
