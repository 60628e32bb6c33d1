package judge;

import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;

/** Runner: finds the case classes that are present, runs the cases, prints PASS/FAIL/SKIP lines. */
public final class Judge {
    static final String[] CLASSES = {
        "judge.cases.Send", "judge.cases.Consume", "judge.cases.Delay", "judge.cases.Tx", "judge.cases.Query", "judge.cases.Admin",
        "judge.cases.Acl"};
    static final String[] MQADMIN = {"judge.cases.Mqadmin"};
    static final String[] GRPC = {"judge.cases.Grpc"};

    public static final PrintStream OUT = System.out;
    static final AtomicInteger PASSED = new AtomicInteger(), FAILED = new AtomicInteger(), SKIPPED = new AtomicInteger();

    static final class Item {
        Object target;
        Method m;
        Case c;
    }

    public static void main(String[] a) throws Exception {
        String ns = null, proxy = null, suite = "remoting";
        Set<String> only = null, skip = new HashSet<>();
        int jobs = 6;
        boolean list = false, times = false, trace = false;
        for (int i = 0; i < a.length; i++) {
            switch (a[i]) {
                case "--proxy": proxy = a[++i]; break;
                case "--suite": suite = a[++i]; break;
                case "--only": only = new HashSet<>(Arrays.asList(a[++i].split(","))); break;
                case "--skip": skip.addAll(Arrays.asList(a[++i].split(","))); break;
                case "--jobs": jobs = Integer.parseInt(a[++i]); break;
                case "--list": list = true; break;
                case "--times": times = true; break;
                case "--trace": trace = true; break;
                default:
                    if (a[i].startsWith("--")) {
                        System.err.println("unknown option " + a[i]);
                        System.exit(2);
                    }
                    ns = a[i];
            }
        }
        List<Item> items = new ArrayList<>();
        for (String cn : suite.equals("grpc") ? GRPC : suite.equals("mqadmin") ? MQADMIN : CLASSES) {
            Class<?> k;
            try {
                k = Class.forName(cn);
            } catch (ClassNotFoundException e) {
                continue;
            }
            Object o = k.getDeclaredConstructor().newInstance();
            Method[] ms = k.getDeclaredMethods();
            Arrays.sort(ms, (x, y) -> x.getName().compareTo(y.getName()));
            for (Method m : ms) {
                Case c = m.getAnnotation(Case.class);
                if (c == null || only != null && !only.contains(c.value()) || skip.contains(c.value())) {
                    continue;
                }
                Item it = new Item();
                it.target = o;
                it.m = m;
                it.c = c;
                items.add(it);
            }
        }
        if (list) {
            for (Item it : items) {
                OUT.println(it.c.value() + (it.c.slow() ? "  slow" : "") + (it.c.serial() ? "  serial" : ""));
            }
            return;
        }
        if (ns == null) {
            System.err.println("usage: NAMESRV_ADDR [--suite remoting|mqadmin|grpc] [--proxy HOST:PORT] [--only A,B] [--skip A,B] [--jobs N] [--list] [--times] [--trace]");
            System.exit(2);
        }
        // what the client libraries print must not mix with the verdicts
        System.setOut(new PrintStream(new java.io.FileOutputStream(System.getProperty("judge.noise", "/dev/null"), true), true));
        Env env = new Env(ns, proxy);
        try {
            env.start();
        } catch (Throwable t) {
            OUT.println("FAIL setup: " + brief(t));
            OUT.println("0 passed, 1 failed");
            OUT.flush();
            Runtime.getRuntime().halt(1);
        }
        items.sort((x, y) -> Boolean.compare(y.c.slow(), x.c.slow()));
        ExecutorService pool = Executors.newFixedThreadPool(jobs);
        ExecutorService bodies = Executors.newCachedThreadPool(r -> {
            Thread t = new Thread(r);
            t.setDaemon(true);
            return t;
        });
        final boolean tm = times, tr = trace;
        List<Future<?>> fs = new ArrayList<>();
        for (Item it : items) {
            if (!it.c.serial()) {
                fs.add(pool.submit(() -> runOne(env, it, bodies, tm, tr)));
            }
        }
        for (Future<?> f : fs) {
            f.get();
        }
        for (Item it : items) {
            if (it.c.serial()) {
                runOne(env, it, bodies, tm, tr);
            }
        }
        OUT.println(PASSED + " passed, " + FAILED + " failed" + (SKIPPED.get() > 0 ? ", " + SKIPPED + " skipped" : ""));
        OUT.flush();
        Runtime.getRuntime().halt(FAILED.get() == 0 ? 0 : 1);
    }

    static void runOne(Env env, Item it, ExecutorService bodies, boolean times, boolean trace) {
        String name = it.c.value();
        long t0 = System.nanoTime();
        Ctx ctx = new Ctx(env, name);
        Future<?> f = bodies.submit(() -> {
            it.m.invoke(it.target, ctx);
            return null;
        });
        String line;
        Throwable err = null;
        try {
            f.get(it.c.secs(), TimeUnit.SECONDS);
            PASSED.incrementAndGet();
            line = "PASS " + name;
        } catch (TimeoutException e) {
            f.cancel(true);
            FAILED.incrementAndGet();
            line = "FAIL " + name + ": not done within " + it.c.secs() + " s" + (ctx.doing == null ? "" : ", while: " + ctx.doing);
        } catch (ExecutionException e) {
            err = e.getCause();
            if (err instanceof InvocationTargetException) {
                err = err.getCause();
            }
            if (err instanceof Skip) {
                SKIPPED.incrementAndGet();
                line = "SKIP " + name + ": " + err.getMessage();
                err = null;
            } else {
                FAILED.incrementAndGet();
                line = "FAIL " + name + ": " + brief(err);
            }
        } catch (InterruptedException e) {
            line = "FAIL " + name + ": interrupted";
        }
        Future<?> cl = bodies.submit(ctx::close);
        try {
            cl.get(20, TimeUnit.SECONDS);
        } catch (Exception e) {
            // a client that does not shut down is not what is judged here
        }
        synchronized (OUT) {
            OUT.println(line);
            if (times) {
                OUT.printf("# %s %.1f s%n", name, (System.nanoTime() - t0) / 1e9);
            }
            if (trace && err != null) {
                err.printStackTrace(OUT);
            }
            OUT.flush();
        }
    }

    static String brief(Throwable t) {
        StringBuilder b = new StringBuilder();
        for (int i = 0; t != null && i < 3; i++, t = t.getCause()) {
            if (i > 0) {
                b.append(" <- ");
            }
            String m = String.valueOf(t.getMessage()).replaceAll("\\s+", " ");
            b.append(t instanceof AssertionError ? m : t.getClass().getSimpleName() + ": " + m);
        }
        return b.length() > 400 ? b.substring(0, 400) : b.toString();
    }
}
