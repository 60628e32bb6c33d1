package judge;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.body.ClusterInfo;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What all cases share: addresses, credentials, one admin client. */
public final class Env {
    public final String ns, proxy;
    /** The name server of clients; that of the admin client is ns. */
    public final String clients;
    public final String run = Long.toString(System.currentTimeMillis() / 100 % 100_000_000L, 36) + Long.toString(ProcessHandle.current().pid(), 36);
    public final String ak = System.getenv("JUDGE_AK"), sk = System.getenv("JUDGE_SK");
    public final AtomicInteger seq = new AtomicInteger();
    public DefaultMQAdminExt admin;
    public String cluster;
    public List<String> masters = new ArrayList<>();
    public List<String> brokerNames = new ArrayList<>();

    Env(String ns, String proxy) {
        this.ns = ns;
        this.proxy = proxy;
        String given = System.getenv("JUDGE_CLIENTS");
        clients = given == null ? ns : given;
    }

    public RPCHook hook() {
        return ak == null ? null : new AclClientRPCHook(new SessionCredentials(ak, sk));
    }

    void start() throws Exception {
        admin = new DefaultMQAdminExt(hook(), 15000);
        admin.setNamesrvAddr(ns);
        admin.setInstanceName("adm" + run);
        admin.setMqClientApiTimeout(15000);
        admin.setAdminExtGroup("judge_admin_" + run);
        admin.start();
        long end = System.currentTimeMillis() + 30000;
        while (masters.isEmpty()) {
            Exception last = null;
            try {
                ClusterInfo ci = admin.examineBrokerClusterInfo();
                Set<String> names = new HashSet<>();
                for (Map.Entry<String, Set<String>> e : ci.getClusterAddrTable().entrySet()) {
                    cluster = e.getKey();
                    names.addAll(e.getValue());
                    break;
                }
                for (String n : names) {
                    BrokerData d = ci.getBrokerAddrTable().get(n);
                    String m = d == null ? null : d.getBrokerAddrs().get(MixAll.MASTER_ID);
                    if (m != null) {
                        masters.add(m);
                        brokerNames.add(n);
                    }
                }
            } catch (Exception e) {
                last = e;
            }
            if (masters.isEmpty()) {
                if (System.currentTimeMillis() > end) {
                    throw new IllegalStateException("no master broker at " + ns, last);
                }
                Thread.sleep(500);
            }
        }
    }
}
