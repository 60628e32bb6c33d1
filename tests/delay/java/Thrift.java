import java.nio.ByteBuffer;
import org.apache.thrift.protocol.TCompactProtocol;
import org.apache.thrift.protocol.TField;
import org.apache.thrift.protocol.TMap;
import org.apache.thrift.protocol.TMessage;
import org.apache.thrift.protocol.TMessageType;
import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.protocol.TProtocolUtil;
import org.apache.thrift.protocol.TStruct;
import org.apache.thrift.protocol.TType;
import org.apache.thrift.transport.TFramedTransport;
import org.apache.thrift.transport.TSocket;

/**
 * Adds a delayed message, adds one too far ahead, cancels the first and sends a plain one, as DDMQ's SDK for Java writes
 * them. Prints a line with code and id for each.
 */
public class Thrift {
    static final byte[] BODY = {0, (byte) 128, (byte) 255};
    static TProtocol protocol;
    static int number;

    public static void main(String[] args) throws Exception {
        TSocket socket = new TSocket("127.0.0.1", Integer.parseInt(args[0]), 60000);
        TFramedTransport transport = new TFramedTransport(socket);
        transport.open();
        protocol = new TCompactProtocol(transport);
        long soon = System.currentTimeMillis() / 1000 + 3600;
        String id = delayed(1, "", soon);
        delayed(1, "", soon + 63 * 86400);
        delayed(2, id, 0);
        plain();
        transport.close();
    }

    static String delayed(int action, String id, long second) throws Exception {
        begin("sendDelaySync");
        text(1, "orders");
        if (action == 2) {
            text(2, id);
        }
        bytes(3, action == 2 ? new byte[] {'c'} : BODY);
        text(4, "");
        number(5, TType.I32, action);
        number(6, TType.I64, second);
        number(7, TType.I32, 2);
        number(8, TType.I64, 0);
        number(9, TType.I64, 0);
        number(10, TType.I64, 0);
        text(11, "d1a2b3d4-0000-11f0-8000-0123456789ab");
        text(13, "carrera_java");
        map(14);
        return end(1000);
    }

    static void plain() throws Exception {
        begin("sendSync");
        text(1, "both");
        text(2, "key");
        text(3, "");
        number(4, TType.I64, 7);
        text(5, "java");
        number(6, TType.I32, -1);
        bytes(7, BODY);
        map(9);
        end(1000);
    }

    static void begin(String method) throws Exception {
        protocol.writeMessageBegin(new TMessage(method, TMessageType.CALL, ++number));
        protocol.writeStructBegin(new TStruct("args"));
        protocol.writeFieldBegin(new TField("message", TType.STRUCT, (short) 1));
        protocol.writeStructBegin(new TStruct("message"));
    }

    static String end(long timeout) throws Exception {
        protocol.writeFieldStop();
        protocol.writeStructEnd();
        protocol.writeFieldEnd();
        number(2, TType.I64, timeout);
        protocol.writeFieldStop();
        protocol.writeStructEnd();
        protocol.writeMessageEnd();
        protocol.getTransport().flush();
        TMessage answer = protocol.readMessageBegin();
        if (answer.type != TMessageType.REPLY || answer.seqid != number) {
            throw new IllegalStateException("answer of type " + answer.type + ", number " + answer.seqid);
        }
        int code = -1;
        String id = "";
        protocol.readStructBegin();
        protocol.readFieldBegin();
        protocol.readStructBegin();
        for (TField field = protocol.readFieldBegin(); field.type != TType.STOP; field = protocol.readFieldBegin()) {
            if (field.id == 1) {
                code = protocol.readI32();
            } else if (field.id == 3) {
                id = protocol.readString();
            } else {
                TProtocolUtil.skip(protocol, field.type);
            }
            protocol.readFieldEnd();
        }
        protocol.readStructEnd();
        protocol.readFieldEnd();
        protocol.readFieldBegin();
        protocol.readStructEnd();
        protocol.readMessageEnd();
        System.out.println(code + " " + id);
        return id;
    }

    static void text(int id, String text) throws Exception {
        protocol.writeFieldBegin(new TField("", TType.STRING, (short) id));
        protocol.writeString(text);
        protocol.writeFieldEnd();
    }

    static void bytes(int id, byte[] bytes) throws Exception {
        protocol.writeFieldBegin(new TField("", TType.STRING, (short) id));
        protocol.writeBinary(ByteBuffer.wrap(bytes));
        protocol.writeFieldEnd();
    }

    static void number(int id, byte type, long value) throws Exception {
        protocol.writeFieldBegin(new TField("", type, (short) id));
        if (type == TType.I32) {
            protocol.writeI32((int) value);
        } else {
            protocol.writeI64(value);
        }
        protocol.writeFieldEnd();
    }

    static void map(int id) throws Exception {
        protocol.writeFieldBegin(new TField("", TType.MAP, (short) id));
        protocol.writeMapBegin(new TMap(TType.STRING, TType.STRING, 1));
        protocol.writeString("traceId");
        protocol.writeString("abc");
        protocol.writeMapEnd();
        protocol.writeFieldEnd();
    }
}
