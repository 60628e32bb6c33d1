package judge;

import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/**
 * Makes topics and groups for the clients that cannot: NAMESRV_ADDR topic:NAME:QUEUES[:TYPE] group:NAME[:orderly][:max=N] ...
 * Prints "provisioned N".
 */
public final class Provision {
    public static void main(String[] a) throws Exception {
        java.io.PrintStream out = System.out;
        System.setOut(new java.io.PrintStream(new java.io.FileOutputStream(System.getProperty("judge.noise", "/dev/null"), true), true));
        try {
            Env env = new Env(a[0]);
            env.start();
            Ctx c = new Ctx(env, "prov");
            for (int i = 1; i < a.length; i++) {
                String[] p = a[i].split(":");
                if (p[0].equals("topic")) {
                    c.topic(p[1], Integer.parseInt(p[2]), 6, p.length > 3 ? p[3] : null);
                } else {
                    SubscriptionGroupConfig g = new SubscriptionGroupConfig();
                    g.setGroupName(p[1]);
                    for (int k = 2; k < p.length; k++) {
                        if (p[k].equals("orderly")) {
                            g.setConsumeMessageOrderly(true);
                        } else if (p[k].startsWith("max=")) {
                            g.setRetryMaxTimes(Integer.parseInt(p[k].substring(4)));
                        }
                    }
                    for (String m : env.masters) {
                        env.admin.createAndUpdateSubscriptionGroupConfig(m, g);
                    }
                }
            }
            out.println("provisioned " + (a.length - 1));
            out.flush();
            Runtime.getRuntime().halt(0);
        } catch (Throwable t) {
            out.println("not provisioned: " + Judge.brief(t));
            out.flush();
            Runtime.getRuntime().halt(1);
        }
    }
}
