package io.weirflow.interop;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * What is sent, element by element, computed from a seed at either end: script.go is the same in Go. Each round gives every channel a
 * record. Before a barrier one channel gets a burst of larger records; then all get a watermark, then the barrier follows. Blocking
 * partitions get no barriers, and records that can be compressed.
 */
final class Script {
    static final int BARRIERS = 12;
    static final int BURST = 120;
    static final int BURST_SIZE = 20_000;
    static final int GIANT = 20_000_000;
    static final int HALF_GIANT = 6_000_000;
    static final int SHORT_TIMEOUT = 30;
    static final int LONG_TIMEOUT = 60_000;

    /** How barrier b is sent: b % 4. */
    static final int ALIGNED = 0, TIMED_LONG = 1, TIMED_SHORT = 2, UNALIGNED = 3;

    private static final VarHandle LONGS =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    final long seed;
    final int channels;
    final int rounds;
    final Kind kind;
    /** By channel and element: the record's size, or -1-t for a watermark of time t. */
    final int[][] elements;
    /** By channel and element: where its bytes begin; one more at the end. */
    final long[][] offsets;
    /** By channel and element: how many ms its reader sleeps before it goes on. */
    final byte[][] pauses;
    /** By barrier and channel: the number of elements before it. */
    final int[][] before = new int[BARRIERS][];
    /** By round: the barrier behind it, or -1; and whether a watermark is. */
    final int[] barrierAfter;
    final boolean[] watermarkAfter;

    private final int[] counts;

    Script(long seed, int channels, int rounds, Kind kind) {
        this.seed = seed;
        this.channels = channels;
        this.rounds = rounds;
        this.kind = kind;
        barrierAfter = new int[rounds];
        watermarkAfter = new boolean[rounds];
        Arrays.fill(barrierAfter, -1);
        for (int b = 0; b < BARRIERS && !kind.isBlocking(); b++) {
            barrierAfter[(int) ((long) (b + 1) * rounds / (BARRIERS + 1)) - 1] = b;
        }
        int every = Math.max(1, rounds / 40);
        for (int r = 0; r < rounds; r++) {
            watermarkAfter[r] = (r + 1) % every == 0 || barrierAfter[r] >= 0;
        }
        elements = new int[channels][rounds];
        pauses = new byte[channels][rounds];
        counts = new int[channels];
        for (int r = 0; r < rounds; r++) {
            for (int c = 0; c < channels; c++) {
                add(c, r == rounds / 2 && c == channels - 1 ? GIANT : size(c, counts[c]), 0);
            }
            int b = barrierAfter[r];
            if (b >= 0) {
                burst(b);
            }
            for (int c = 0; watermarkAfter[r] && c < channels; c++) {
                add(c, -1 - r, 0);
            }
            if (b >= 0) {
                before[b] = counts.clone();
            }
        }
        offsets = new long[channels][];
        for (int c = 0; c < channels; c++) {
            elements[c] = Arrays.copyOf(elements[c], counts[c]);
            offsets[c] = new long[counts[c] + 1];
            for (int e = 0; e < counts[c]; e++) {
                offsets[c][e + 1] = offsets[c][e] + length(c, e);
            }
        }
    }

    /** The channel that has the burst before barrier b. */
    int burstChannel(int b) {
        return b * 7 % channels;
    }

    /** The records of the burst: the last ones are huge for some barriers. */
    int burstLength(int b) {
        return b == 3 || b == 6 ? BURST + 1 : BURST;
    }

    private void burst(int b) {
        int c = burstChannel(b);
        boolean slow = b % 4 >= TIMED_SHORT;
        for (int i = 0; i < BURST; i++) {
            add(c, BURST_SIZE, !slow ? 0 : i == 0 ? 100 : i >= BURST - 40 ? 4 : 0);
        }
        if (b == 3) {
            add(c, GIANT, 0);
        } else if (b == 6) {
            add(c, HALF_GIANT, 0);
        }
    }

    private void add(int c, int element, int pause) {
        int n = counts[c]++;
        if (n == elements[c].length) {
            elements[c] = Arrays.copyOf(elements[c], 2 * n);
            pauses[c] = Arrays.copyOf(pauses[c], 2 * n);
        }
        elements[c][n] = element;
        pauses[c][n] = (byte) pause;
    }

    private static long mix(long x) {
        x += 0x9E3779B97F4A7C15L;
        x = (x ^ (x >>> 30)) * 0xBF58476D1CE4E5B9L;
        x = (x ^ (x >>> 27)) * 0x94D049BB133111EBL;
        return x ^ (x >>> 31);
    }

    private long mix(int c, int e) {
        return mix(mix(seed) ^ ((long) c << 32) ^ e);
    }

    private int size(int c, int e) {
        long h = mix(c, e);
        int pick = (int) (h & 1023);
        long v = h >>> 10;
        if (pick < 128) {
            return 0;
        } else if (pick < 256) {
            return (int) (1 + v % 8);
        } else if (pick < 900) {
            return (int) (1 + v % 200);
        } else if (pick < 1010) {
            return (int) (v % 4000);
        } else if (pick < 1020) {
            return (int) (32768 - 24 + v % 32); // around the end of a buffer
        } else if (pick < 1023) {
            return (int) (v % 100_000);
        }
        return (int) (v % 1_000_000);
    }

    boolean isRecord(int c, int e) {
        return elements[c][e] >= 0;
    }

    /** Every third record has a timestamp, the number of its element. */
    boolean hasTimestamp(int e) {
        return e % 3 == 0;
    }

    /** The bytes that an element takes in a channel, with its length. */
    int length(int c, int e) {
        int size = elements[c][e];
        return size < 0 ? 13 : 9 + size + (hasTimestamp(e) ? 8 : 0);
    }

    /** Fills p with the content of a record. */
    void fill(int c, int e, byte[] p) {
        long x = mix(c, e) ^ 0x6A09E667F3BCC908L;
        int i = 0;
        int repeat = kind.isBlocking() ? 64 : 8;
        for (; i + 8 <= p.length; i += 8) {
            if (i % repeat == 0) {
                x = x * 6364136223846793005L + 1442695040888963407L;
            }
            LONGS.set(p, i, x ^ (x >>> 32));
        }
        x = x * 6364136223846793005L + 1442695040888963407L;
        for (x ^= x >>> 32; i < p.length; i++, x >>>= 8) {
            p[i] = (byte) x;
        }
    }

    byte[] content(int c, int e) {
        byte[] p = new byte[elements[c][e]];
        fill(c, e, p);
        return p;
    }

    /** Whether p is a channel's bytes from position on. */
    boolean matches(int c, long position, byte[] p) {
        if (position < 0 || position + p.length > offsets[c][elements[c].length]) {
            return false;
        }
        int e = Arrays.binarySearch(offsets[c], position);
        if (e < 0) {
            e = -e - 2;
        }
        int at = (int) (offsets[c][e] - position);
        for (; at < p.length; e++) {
            byte[] element = serialized(c, e);
            int from = Math.max(0, -at);
            int n = Math.min(element.length - from, p.length - at - from);
            if (!Arrays.equals(element, from, from + n, p, at + from, at + from + n)) {
                return false;
            }
            at += element.length;
        }
        return true;
    }

    /** An element as it is in buffers. */
    private byte[] serialized(int c, int e) {
        ByteBuffer out = ByteBuffer.allocate(length(c, e));
        out.putInt(out.capacity() - 4);
        if (!isRecord(c, e)) {
            return out.put((byte) 2).putLong(-1L - elements[c][e]).array();
        }
        if (hasTimestamp(e)) {
            out.put((byte) 0).putLong(e);
        } else {
            out.put((byte) 1);
        }
        return out.putInt(elements[c][e]).put(content(c, e)).array();
    }
}
