/** A build's parameters: one that its job does not declare is refused, where Jenkins says null. */
class Params {

    private final Map values

    Params(Map values) {
        this.values = values
    }

    Object propertyMissing(String name) {
        if (!values.containsKey(name)) {
            throw new Refused("params.${name}: the job declares no such parameter; it has ${values.keySet()}")
        }
        values[name]
    }

}
