import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * One JVM that loads whichever broker a line on its standard input names, so that both brokers meet the
 * same client with the same compiled code. Lines are "op key=value ..."; the answers are "begin", printed
 * when the measured window opens, "end {json}" when it closes, and "idle" when everything has come to rest. The
 * reader samples the broker's CPU time at the first two. End of input ends the process.
 */
public final class Load {
    private static final PrintStream ANSWERS = System.out;

    private Load() { }

    public static void main(String[] argv) throws Exception {
        System.setOut(System.err); // the client's logger prints to standard output
        say("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            try {
                run(new Args(line));
            } catch (Throwable e) {
                e.printStackTrace();
                say("error " + e.toString().replace('\n', ' '));
            }
        }
        System.exit(0);
    }

    private static void run(Args args) throws Exception {
        switch (args.op) {
            case "sync": case "batch": case "ordered": case "transaction": case "delay":
                new Sends(args).threads(args.op);
                break;
            case "async": new Sends(args).async(); break;
            case "oneway": new Sends(args).oneway(); break;
            case "raw": new Sends(args).raw(); break;
            case "mixed": new Sends(args).mixed(); break;
            case "latency": new Sends(args).latency(); break;
            case "forget": Sends.forget(args.text("namesrv")); break;
            case "fill": new Sends(args).fill(); break;
            case "push": case "orderly": case "pop": new Consumes(args).push(args.op); break;
            case "pull": new Consumes(args).pull(); break;
            default: throw new IllegalArgumentException("unknown op " + args.op);
        }
    }

    /** What a line says. */
    static final class Args {
        final String op;
        private final Map<String, String> values = new HashMap<>();

        Args(String line) {
            String[] words = line.trim().split(" ");
            op = words[0];
            for (int i = 1; i < words.length; i++) {
                int at = words[i].indexOf('=');
                values.put(words[i].substring(0, at), words[i].substring(at + 1));
            }
        }

        String text(String key) {
            String value = values.get(key);
            if (value == null) {
                throw new IllegalArgumentException(op + " needs " + key);
            }
            return value;
        }

        /** Signs requests where access is controlled; null where it is not. */
        RPCHook signing() {
            return values.containsKey("user")
                ? new AclClientRPCHook(new SessionCredentials(text("user"), text("secret"))) : null;
        }

        /** The client with what every one is told. */
        <T extends ClientConfig> T connecting(T client) {
            client.setNamesrvAddr(text("namesrv"));
            client.setUseTLS(values.containsKey("tls"));
            return client;
        }

        int number(String key) {
            return Integer.parseInt(text(key));
        }
    }

    static Thread start(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    static void say(String line) {
        synchronized (ANSWERS) {
            ANSWERS.println(line);
            ANSWERS.flush();
        }
    }
}
