"""Training: the loss, the schedule, the loop over `tf.distribute`, and the checkpoints it leaves."""
