import groovy.json.JsonOutput

/** Writes what happens, a JSON object a line; secrets are masked as Jenkins masks them. */
class Recorder {

    static final String MASK = '****'

    private final Writer out
    private final Set<String> secrets = [] as Set

    Recorder(File file) {
        out = new OutputStreamWriter(new FileOutputStream(file), 'UTF-8')
    }

    void hide(String secret) {
        secrets << secret
    }

    String masked(String text) {
        secrets.inject(text) { said, secret -> said.replace(secret, MASK) }
    }

    void write(Map event) {
        out.write(JsonOutput.toJson(maskedIn(event)))
        out.write('\n')
        out.flush()
    }

    private Object maskedIn(Object value) {
        if (value instanceof Map) {
            return value.collectEntries { key, one -> [(key.toString()): maskedIn(one)] }
        }
        if (value instanceof Collection) {
            return value.collect { one -> maskedIn(one) }
        }
        value instanceof CharSequence ? masked(value.toString()) : value
    }

}
