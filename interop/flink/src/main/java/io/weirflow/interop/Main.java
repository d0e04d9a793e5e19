package io.weirflow.interop;

import org.apache.flink.runtime.io.network.partition.ResultPartitionID;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * The Flink end. It takes commands from standard input, one a line, one at a time, and answers on standard output:
 *
 * <ul>
 *   <li>{@code send SEED CHANNELS ROUNDS KEYS KIND}: answers {@code ready PORT PARTITION}, and takes {@code ack ID} for each checkpoint, or
 *       {@code ack 1} once the consumers of a blocking partition are done;
 *   <li>{@code receive HOST PORT PARTITION SEED CHANNELS ROUNDS KEYS KIND}: answers {@code complete ID} for each checkpoint.
 * </ul>
 *
 * KEYS is a folder with key.der and certificate.der for TLS, or - for none; KIND is a name of {@link Kind}. The last answer to either is {@code done REPORT} or {@code failed TEXT}.
 */
public final class Main {
    private static final PrintStream OUT = System.out;
    private static final BlockingQueue<String[]> LINES = new LinkedBlockingQueue<>();

    private Main() {}

    public static void main(String[] args) throws Exception {
        System.setOut(System.err);
        Thread reader = new Thread(Main::readLines, "commands");
        reader.setDaemon(true);
        reader.start();
        while (true) {
            String[] command = LINES.take();
            try {
                switch (command[0]) {
                    case "send":
                        answer("done " + send(command).json());
                        break;
                    case "receive":
                        answer("done " + receive(command).json());
                        break;
                    default:
                        throw new IllegalArgumentException("unknown command " + command[0]);
                }
            } catch (Throwable t) {
                t.printStackTrace();
                Throwable cause = t;
                StringBuilder text = new StringBuilder(t.toString());
                while ((cause = cause.getCause()) != null) {
                    text.append(": ").append(cause);
                }
                answer("failed " + text.toString().replace('\n', ' '));
            }
        }
    }

    private static Report send(String[] command) throws Exception {
        Script script =
                new Script(Long.parseLong(command[1]), Integer.parseInt(command[2]), Integer.parseInt(command[3]), Kind.valueOf(command[5]));
        acknowledged = 0;
        return new Sender(script, Keys.of(command[4]), Main::acknowledged)
                .run((port, id) -> answer("ready " + port + " " + HexFormat.of().formatHex(id.getBytes())));
    }

    private static Report receive(String[] command) throws Exception {
        Script script =
                new Script(Long.parseLong(command[4]), Integer.parseInt(command[5]), Integer.parseInt(command[6]), Kind.valueOf(command[8]));
        return new Receiver(script, Keys.of(command[7]), id -> answer("complete " + id))
                .run(
                        new InetSocketAddress(command[1], Integer.parseInt(command[2])),
                        new ResultPartitionID(HexFormat.of().parseHex(command[3])));
    }

    private static long acknowledged;

    private static boolean acknowledged(long id) {
        for (String[] line; (line = LINES.poll()) != null; ) {
            if (!line[0].equals("ack")) {
                throw new IllegalStateException("not an acknowledgement: " + line[0]);
            }
            acknowledged = Long.parseLong(line[1]);
        }
        return acknowledged >= id;
    }

    private static void answer(String line) {
        synchronized (OUT) {
            OUT.println(line);
            OUT.flush();
        }
    }

    private static void readLines() {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line; (line = in.readLine()) != null; ) {
                LINES.add(line.split(" "));
            }
        } catch (Exception e) {
            e.printStackTrace();
        }
        System.exit(0); // whoever started this is gone
    }
}
