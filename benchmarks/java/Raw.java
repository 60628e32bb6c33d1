import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;

/**
 * One connection that speaks the wire format without a client in between, so that the broker is what is short of
 * CPU: requests are made from a template in which only digits change, many of them leave in one write, and of an
 * answer only its length and its code are looked at.
 */
final class Raw implements Runnable {
    /** Ten digits from the start on, so that a request never changes its length. */
    private static final int FIRST_OPAQUE = 1_000_000_000;
    private static final byte[] OK = "\"code\":0,".getBytes(StandardCharsets.US_ASCII);

    private final SocketChannel channel;
    private final int depth;
    private final int burst;
    private final int perRequest;
    private final Window window;
    private final ByteBuffer out;
    private final ByteBuffer in = ByteBuffer.allocateDirect(1 << 20);
    private final byte[] frame;
    private final int opaqueAt;
    private final int uniqueAt;
    private final int queueAt;
    private long sent;
    private long answered;
    private volatile boolean stop;

    Raw(String broker, String topic, byte[] body, int batch, int connection, int depth, Window window)
            throws IOException {
        this.depth = depth;
        this.burst = Math.max(1, depth / 4);
        this.perRequest = batch;
        this.window = window;
        String unique = String.format("7F000001B1%02X", connection) + "00000000000000000000";
        String header = "{\"code\":" + (batch > 1 ? 320 : 310) + ",\"extFields\":{\"a\":\"benchmark_raw\",\"b\":\"" + topic
            + "\",\"c\":\"TBW102\",\"d\":\"4\",\"e\":\"0\",\"f\":\"0\",\"g\":\"" + System.currentTimeMillis()
            + "\",\"h\":\"0\",\"i\":\"UNIQ_KEY\\u0001" + unique + "\\u0002WAIT\\u0001true\",\"j\":\"0\",\"k\":\"false\","
            + "\"m\":\"" + (batch > 1) + "\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":" + FIRST_OPAQUE
            + ",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":493}";
        byte[] content = batch > 1 ? batchOf(batch, body, unique) : body;
        byte[] head = header.getBytes(StandardCharsets.US_ASCII);
        ByteBuffer made = ByteBuffer.allocate(8 + head.length + content.length);
        made.putInt(4 + head.length + content.length).putInt(head.length).put(head).put(content);
        frame = made.array();
        opaqueAt = 8 + header.indexOf(String.valueOf(FIRST_OPAQUE));
        uniqueAt = 8 + header.indexOf(unique) + 22;
        queueAt = 8 + header.indexOf("\"e\":\"0\"") + 5;
        out = ByteBuffer.allocateDirect(frame.length * burst);
        channel = SocketChannel.open();
        channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
        channel.connect(new InetSocketAddress(broker.split(":")[0], Integer.parseInt(broker.split(":")[1])));
    }

    private static byte[] batchOf(int count, byte[] body, String unique) {
        byte[] properties = ("UNIQ_KEY\u0001" + unique + "\u0002WAIT\u0001true").getBytes(StandardCharsets.US_ASCII);
        int size = 22 + body.length + properties.length;
        ByteBuffer made = ByteBuffer.allocate(size * count);
        for (int i = 0; i < count; i++) {
            made.putInt(size).putInt(0).putInt(0).putInt(0).putInt(body.length).put(body);
            made.putShort((short) properties.length).put(properties);
        }
        return made.array();
    }

    void stop() {
        stop = true;
    }

    @Override
    public void run() {
        try {
            while (!stop) {
                send();
                while (sent - answered > depth - burst) {
                    receive();
                }
            }
            while (sent > answered) {
                receive();
            }
            channel.close();
        } catch (IOException | RuntimeException e) {
            window.fail(perRequest, e.toString());
        }
    }

    private void send() throws IOException {
        out.clear();
        for (int i = 0; i < burst; i++) {
            digits(opaqueAt, FIRST_OPAQUE + sent % FIRST_OPAQUE);
            digits(uniqueAt, FIRST_OPAQUE + sent % FIRST_OPAQUE);
            frame[queueAt] = (byte) ('0' + sent % 4);
            out.put(frame);
            sent++;
        }
        out.flip();
        while (out.hasRemaining()) {
            channel.write(out);
        }
    }

    private void digits(int at, long number) {
        for (int i = 9; i >= 0; i--) {
            frame[at + i] = (byte) ('0' + number % 10);
            number /= 10;
        }
    }

    private void receive() throws IOException {
        if (channel.read(in) < 0) {
            throw new IOException("the broker closed the connection");
        }
        in.flip();
        while (in.remaining() >= 8) {
            int length = in.getInt(in.position());
            if (in.remaining() < 4 + length) {
                break;
            }
            int header = in.getInt(in.position() + 4) & 0xFFFFFF;
            answered++;
            if (isOk(in.position() + 8, header)) {
                window.messages.add(perRequest);
            } else {
                byte[] text = new byte[header];
                in.get(in.position() + 8, text);
                window.fail(perRequest, new String(text, StandardCharsets.UTF_8));
            }
            in.position(in.position() + 4 + length);
        }
        in.compact();
    }

    /** Whether the code of an answer is 0; both brokers write it before anything of varying content. */
    private boolean isOk(int at, int length) {
        for (int i = 0; i + OK.length <= length; i++) {
            int j = 0;
            while (j < OK.length && in.get(at + i + j) == OK[j]) {
                j++;
            }
            if (j == OK.length) {
                return true;
            }
        }
        return false;
    }
}
