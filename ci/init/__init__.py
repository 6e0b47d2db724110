"""A back end's checkout, set up: settings, workflows and a Jenkinsfile that call this toolkit."""
