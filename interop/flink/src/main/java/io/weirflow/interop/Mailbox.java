package io.weirflow.interop;

import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.streaming.runtime.io.checkpointing.BarrierAlignmentUtil.Cancellable;
import org.apache.flink.streaming.runtime.io.checkpointing.BarrierAlignmentUtil.DelayableTimer;
import org.apache.flink.util.function.ThrowingRunnable;

import java.time.Duration;
import java.util.PriorityQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;

/** What a task does between two records: mails from other threads, and its timers. */
final class Mailbox implements MailboxExecutor, DelayableTimer {
    private final ConcurrentLinkedQueue<ThrowingRunnable<? extends Exception>> mails = new ConcurrentLinkedQueue<>();
    private final PriorityQueue<Due> timers = new PriorityQueue<>((a, b) -> Long.compare(a.at - b.at, 0));

    private static final class Due {
        long at;
        Callable<?> call;
    }

    boolean hasMail() {
        return !mails.isEmpty() || !timers.isEmpty() && timers.peek().at <= System.nanoTime();
    }

    /** Runs what is there and due. On the task's thread, as all but execute. */
    void run() throws Exception {
        for (ThrowingRunnable<? extends Exception> mail; (mail = mails.poll()) != null; ) {
            mail.run();
        }
        while (!timers.isEmpty() && timers.peek().at <= System.nanoTime()) {
            timers.poll().call.call();
        }
    }

    @Override
    public Cancellable registerTask(Callable<?> call, Duration delay) {
        Due due = new Due();
        due.at = System.nanoTime() + delay.toNanos();
        due.call = call;
        timers.add(due);
        return () -> timers.remove(due);
    }

    @Override
    public void execute(MailOptions options, ThrowingRunnable<? extends Exception> mail, String text, Object... args) {
        mails.add(mail);
    }

    @Override
    public void yield() {
        throw new UnsupportedOperationException();
    }

    @Override
    public boolean tryYield() {
        throw new UnsupportedOperationException();
    }

    @Override
    public boolean shouldInterrupt() {
        return hasMail();
    }
}
