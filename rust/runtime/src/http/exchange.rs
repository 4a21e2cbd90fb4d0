//! One connection and the exchange on it, driven by whoever waits for the result.
//!
//! No task stands behind a connection: the future that wants the response moves the bytes. So a
//! dropped future closes the connection at once, and a response costs no hand-over between tasks.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::header::{CONTENT_LENGTH, HOST, PROXY_AUTHORIZATION};
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body::Body;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::HttpRequest;
use super::body::OneFrame;
use super::stream::Stream;

/// How a request is addressed on a connection.
#[derive(Clone, Debug)]
pub(super) enum Route {
    /// The other end of the connection, or of the tunnel through it, is the provider.
    Direct,
    /// The other end is a proxy that forwards: it wants the whole address, and its own credentials.
    Forwarded(Option<HeaderValue>),
}

/// A connection that speaks HTTP/1.1 and carries one exchange at a time.
pub(super) struct Connection {
    sender: http1::SendRequest<OneFrame>,
    driver: Driver,
    route: Route,
}

/// What moves the bytes. It is gone once the connection is closed: whoever still waits for it learns
/// that from its end alone.
type Driver = Option<Pin<Box<http1::Connection<TokioIo<Stream>, OneFrame>>>>;

/// Why a request got no response.
pub(super) enum Unanswered {
    /// No byte of it was sent: another connection may take it.
    Unsent(hyper::Error),
    /// It may have arrived.
    Lost(hyper::Error),
}

impl Connection {
    pub(super) async fn new(stream: Stream, route: Route) -> Result<Self, hyper::Error> {
        let (sender, connection) = http1::Builder::new().handshake(TokioIo::new(stream)).await?;
        Ok(Self { sender, driver: Some(Box::pin(connection)), route })
    }

    /// Sends a request and waits for the head of its response.
    pub(super) async fn send(&mut self, request: &HttpRequest) -> Result<Response<Incoming>, Unanswered> {
        let Self { sender, driver, .. } = self;
        drive(driver, sender.ready()).await.map_err(Unanswered::Unsent)?;
        let message = self.message(request);
        let Self { sender, driver, .. } = self;
        let sent = drive(driver, sender.try_send_request(message)).await;
        sent.map_err(|mut error| match error.take_message() {
            Some(_) => Unanswered::Unsent(error.into_error()),
            None => Unanswered::Lost(error.into_error()),
        })
    }

    /// The next piece of a response's body; `None` at its end.
    pub(super) async fn chunk(&mut self, body: &mut Incoming) -> Result<Option<Bytes>, hyper::Error> {
        loop {
            let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
            match drive(&mut self.driver, frame).await.transpose()?.map(http_body::Frame::into_data) {
                Some(Ok(data)) if data.is_empty() => {}
                Some(Ok(data)) => return Ok(Some(data)),
                Some(Err(_trailers)) => {}
                None => return Ok(None),
            }
        }
    }

    /// Lets the connection finish with the last exchange, and says whether it can take another.
    pub(super) async fn settle(&mut self) -> bool {
        poll_fn(|context| {
            turn(&mut self.driver, context);
            Poll::Ready(())
        })
        .await;
        self.driver.is_some()
    }

    fn message(&self, request: &HttpRequest) -> Request<OneFrame> {
        let mut headers = request.headers.map().clone();
        headers.insert(CONTENT_LENGTH, HeaderValue::from(request.body.remaining()));
        if !headers.contains_key(HOST) {
            headers.insert(HOST, request.endpoint.host_header().clone());
        }
        let uri = match &self.route {
            Route::Direct => Uri::from(request.endpoint.path().clone()),
            Route::Forwarded(credentials) => {
                headers.extend(credentials.iter().map(|value| (PROXY_AUTHORIZATION, value.clone())));
                request.endpoint.uri().clone()
            }
        };
        let mut message = Request::new(OneFrame::new(request.body.clone()));
        *message.method_mut() = Method::POST;
        *message.uri_mut() = uri;
        *message.headers_mut() = headers;
        message
    }
}

/// Runs `work`, which waits for something that only the connection's own progress brings about.
async fn drive<W: Future>(driver: &mut Driver, work: W) -> W::Output {
    let mut work = pin!(work);
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(output),
        Poll::Pending => {
            turn(driver, context);
            work.as_mut().poll(context)
        }
    })
    .await
}

/// Moves what can be moved. Why a connection closed reaches the exchange that was on it by itself.
fn turn(driver: &mut Driver, context: &mut Context<'_>) {
    if driver.as_mut().is_some_and(|driver| driver.as_mut().poll(context).is_ready()) {
        *driver = None;
    }
}
