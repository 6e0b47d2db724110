/** Minutes since the build began, which only faults let pass, and the time-outs that strike meanwhile. */
class Clock {

    // What begins once a time-out has struck around it, in its body's `finally` say, has a minute and is then cut.
    static final Set<String> NO_MOMENT = [
        'archiveArtifacts', 'checkout', 'junit', 'lock', 'mail', 'node', 'sh', 'stash', 'unstash',
    ] as Set

    long now
    private final List<Map> limits = []

    Object within(long minutes, Closure body) {
        limits << [end: now + minutes, struck: false]
        try {
            return body()
        } finally {
            limits.remove(limits.size() - 1)
        }
    }

    /** A step takes so long, unless a time-out strikes before. */
    void pass(long minutes) {
        Map first = next()
        if (first == null || first.end > now + minutes) {
            now += minutes
            return
        }
        now = Math.max(now, first.end as long)
        first.struck = true
        throw new Interrupted('Timeout has been exceeded')
    }

    /** A step never ends by itself. */
    void hang(String step) {
        if (!next()) {
            throw new Refused("${step} would take for ever: there is no time-out around it")
        }
        pass(Long.MAX_VALUE - now)
    }

    /** Whether a step may begin here. */
    void check(String step) {
        if (step in NO_MOMENT && limits.any { one -> one.struck }) {
            throw new Interrupted("${step} is cut: it stands inside of a time-out that has struck")
        }
    }

    /** Bodies that begin at the same moment; what comes after them begins when the last has ended. */
    void sideBySide(Iterable bodies, Closure run) {
        long began = now
        long ended = now
        bodies.each { one ->
            now = began
            run(one)
            ended = Math.max(ended, now)
        }
        now = ended
    }

    private Map next() {
        limits.findAll { one -> !one.struck }.min { one -> one.end }
    }

}
