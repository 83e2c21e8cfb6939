namespace thinwire {}
