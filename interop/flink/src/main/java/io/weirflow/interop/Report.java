package io.weirflow.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32C;

/** What one end saw: report.go is the same in Go. Printed as one line of JSON. */
final class Report {
    /** A checkpoint: for each channel between which positions it cuts, and how many bytes were in flight here. */
    static final class Checkpoint {
        long id;
        long timestamp;
        boolean unaligned;
        long[] low;
        long[] high;
        long[] state;
    }

    final List<Checkpoint> checkpoints = new ArrayList<>();
    final long[] records;
    final CRC32C[] sums;
    long bytes;
    int watermarks;
    boolean endOfData;
    /** Network buffers that did not come home. */
    int missing;

    private final byte[] head = new byte[4];

    Report(int channels) {
        records = new long[channels];
        sums = new CRC32C[channels];
        for (int c = 0; c < channels; c++) {
            sums[c] = new CRC32C();
        }
    }

    void record(int c, byte[] value) {
        records[c]++;
        bytes += value.length;
        for (int i = 0; i < 4; i++) {
            head[i] = (byte) (value.length >>> (24 - 8 * i));
        }
        sums[c].update(head);
        sums[c].update(value);
    }

    String json() {
        StringBuilder out = new StringBuilder("{\"records\":");
        list(out, records);
        out.append(",\"sums\":[");
        for (int c = 0; c < sums.length; c++) {
            out.append(c == 0 ? "" : ",").append(sums[c].getValue());
        }
        out.append("],\"bytes\":").append(bytes).append(",\"watermarks\":").append(watermarks);
        out.append(",\"endOfData\":").append(endOfData).append(",\"missing\":").append(missing).append(",\"checkpoints\":[");
        for (int i = 0; i < checkpoints.size(); i++) {
            Checkpoint cp = checkpoints.get(i);
            out.append(i == 0 ? "" : ",").append("{\"id\":").append(cp.id).append(",\"timestamp\":").append(cp.timestamp);
            out.append(",\"unaligned\":").append(cp.unaligned).append(",\"low\":");
            list(out, cp.low);
            list(out.append(",\"high\":"), cp.high);
            list(out.append(",\"state\":"), cp.state);
            out.append('}');
        }
        return out.append("]}").toString();
    }

    private static void list(StringBuilder out, long[] values) {
        out.append('[');
        for (int i = 0; i < values.length; i++) {
            out.append(i == 0 ? "" : ",").append(values[i]);
        }
        out.append(']');
    }
}
